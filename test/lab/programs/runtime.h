// ROCr set-up: the runtime, one GPU agent, its memory pools, and owners for what they hand out.
#pragma once

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/os/fd.h"

namespace lab {

/// Throws Error{gpu} "<what>: <ROCr's text>" unless `status` is success.
void check_hsa(hsa_status_t status, const std::string& what);

/// ROCr initialised, with one GPU agent. One per process, on the main thread.
class Runtime {
 public:
  /// `gpu`: which of the GPUs the process sees. Throws Error{gpu} when ROCr does not start or does
  /// not show so many.
  explicit Runtime(std::size_t gpu = 0);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  hsa_agent_t gpu() const { return gpu_; }
  hsa_agent_t cpu() const { return cpu_; }
  hsa_amd_memory_pool_t vram() const { return vram_; }  // coarse-grained, on the GPU
  hsa_amd_memory_pool_t other_vram() const;             // likewise, of a GPU that is not gpu()
  hsa_amd_memory_pool_t host() const { return host_; }  // fine-grained, pinned system memory
  std::string gpu_name() const;
  /// "/dev/dri/renderD<minor>" of the agent, from KFD's topology in sysfs.
  std::string render_node() const;

 private:
  hsa_agent_t gpu_{};
  std::optional<hsa_agent_t> other_gpu_;
  hsa_agent_t cpu_{};
  hsa_amd_memory_pool_t vram_{};
  hsa_amd_memory_pool_t host_{};
};

/// Memory of one pool, reachable by the GPU. VRAM must not be touched through bytes(): the CPU may
/// not see it.
class PoolBuffer {
 public:
  /// `size` in bytes. Throws Error{gpu}.
  PoolBuffer(const Runtime& runtime, hsa_amd_memory_pool_t pool, std::size_t size);
  PoolBuffer(PoolBuffer&& other) noexcept;
  PoolBuffer& operator=(PoolBuffer&&) = delete;
  ~PoolBuffer();

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), size_}; }

 private:
  void* base_ = nullptr;
  std::size_t size_;
};

/// A dma-buf of the BO behind `buffer`. Throws Error{gpu}.
kfdcp::UniqueFd export_dmabuf(const PoolBuffer& buffer);

/// A signal that becomes an event, so that waiting for it sleeps in the kernel.
class Signal {
 public:
  explicit Signal(hsa_signal_value_t initial);
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  hsa_signal_t handle() const { return signal_; }
  void store(hsa_signal_value_t value);
  /// Sleeps until the value is below 1. Only time this process really ran counts towards `limit`.
  /// Throws Error{gpu} "<what>: ..." after it, Error{cancelled} when the process is asked to stop.
  void wait_done(const std::string& what, std::chrono::milliseconds limit) const;

 private:
  hsa_signal_t signal_{};
};

}  // namespace lab
