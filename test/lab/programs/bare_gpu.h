// A GPU by the kernel's own calls, without ROCr: a program that knows the number of all it holds.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/os/fd.h"

namespace lab {

/// The first GPU of the topology, with a VM, through one file of /dev/kfd and one of its render
/// node.
class BareGpu {
 public:
  /// Bytes of the doorbells one process has on a GPU from gfx9 on.
  static constexpr std::size_t kDoorbellBytes = 8192;

  /// Throws Error{io} or Error{gpu}.
  BareGpu();
  ~BareGpu();
  BareGpu(const BareGpu&) = delete;
  BareGpu& operator=(const BareGpu&) = delete;

  /// An ioctl of /dev/kfd. Returns 0 or its errno.
  int attempt(unsigned long request, void* arguments) const;
  /// The same, which must succeed. Throws Error{gpu} "<what>: <reason>".
  void call(unsigned long request, void* arguments, const char* what) const;

  std::uint32_t id() const { return id_; }
  int render() const { return render_.get(); }
  /// A number of the GPU's node in the topology. Throws Error{gpu} when there is none.
  std::uint64_t property(const std::string& name) const;
  /// The doorbell of a queue, by the offset that CREATE_QUEUE gives: the kernel tells nowhere else
  /// where doorbells are to be mapped. Throws Error{io}.
  std::uint64_t& doorbell(std::uint64_t offset) const;

 private:
  std::string node_;  // its folder in the topology
  std::uint32_t id_ = 0;
  kfdcp::UniqueFd kfd_, render_;
  std::uint64_t doorbell_handle_ = 0;
  kfdcp::Mapping doorbells_;
  mutable bool doorbells_mapped_ = false;
};

/// Memory of KFD, mapped for the CPU and the GPU, at the same address unless said otherwise.
class BareBuffer {
 public:
  /// VRAM or GTT. `flags`: KFD_IOC_ALLOC_MEM_FLAGS_* beside WRITABLE. Not `visible`: the CPU may
  /// not touch it, as ROCr maps VRAM. Throws Error{gpu} or Error{io}.
  BareBuffer(const BareGpu& gpu, std::uint32_t flags, std::size_t size, bool visible = true);
  /// The pages of this process at `user`, which stay the caller's. Without `writable` the GPU only
  /// reads them. `elsewhere`: at another address for the GPU, as libhsakmt registers memory. Throws
  /// Error{gpu}.
  BareBuffer(const BareGpu& gpu, std::span<std::byte> user, bool writable = true,
             bool elsewhere = false);
  BareBuffer(BareBuffer&& other) noexcept;
  BareBuffer& operator=(BareBuffer&&) = delete;
  ~BareBuffer();

  std::span<std::byte> bytes() const { return bytes_; }
  /// GPU address of byte `offset`.
  std::uint64_t address(std::size_t offset = 0) const { return address_ + offset; }
  /// As other calls of KFD want it.
  std::uint64_t handle() const { return handle_; }
  std::uint32_t* words(std::size_t offset = 0) const {
    return reinterpret_cast<std::uint32_t*>(bytes_.data() + offset);
  }

 private:
  /// Allocates at address_ and maps it for the GPU. Returns the offset for mmap.
  std::uint64_t allocate(std::uint32_t flags, std::uint64_t user);

  const BareGpu* gpu_;  // null once moved from
  std::span<std::byte> bytes_;
  kfdcp::Mapping mapping_;  // what was mapped, or only reserved, at address_
  std::uint64_t address_ = 0;
  std::uint64_t handle_ = 0;
};

/// A word that the GPU writes too.
std::uint32_t load(const std::uint32_t& word);
std::uint64_t load(const std::uint64_t& word);
void store(std::uint32_t& word, std::uint32_t value);
void store(std::uint64_t& word, std::uint64_t value);

/// Sleeps until `done` is true. Only time this process really ran counts towards `limit`. Throws
/// Error{gpu} "<what>: ..." after it, Error{cancelled} when the process is asked to stop.
void wait_until(const std::string& what, std::chrono::milliseconds limit,
                const std::function<bool()>& done);

/// Throws Error{corrupt} "<what>: is <value>, expected <expected>" if they differ.
void expect(const std::string& what, std::uint64_t value, std::uint64_t expected);

}  // namespace lab
