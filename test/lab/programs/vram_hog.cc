// Somebody else on the GPU: takes VRAM, which the driver has to make free, keeps it for a while and
// gives it back, again and again. usage: vram-hog NODE MIB HOLD_MS PAUSE_MS; ends by SIGTERM.
// Prints a line for each round: bytes it was given.
#include <amdgpu.h>
#include <amdgpu_drm.h>
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "stop.h"

namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

constexpr std::uint64_t kChunkBytes = 4u << 20;

class Device {
 public:
  explicit Device(const char* node) : file_(open(node, O_RDWR | O_CLOEXEC)) {
    if (!file_) throw kfdcp::io_error(node);
    std::uint32_t major = 0, minor = 0;
    if (amdgpu_device_initialize(file_.get(), &major, &minor, &device_) != 0)
      throw Error(ErrorCode::gpu, "this node is not amdgpu's");
  }
  ~Device() { amdgpu_device_deinitialize(device_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  amdgpu_device_handle get() const { return device_; }

 private:
  kfdcp::UniqueFd file_;
  amdgpu_device_handle device_ = nullptr;
};

/// A piece of VRAM that the CPU has written to, so that it is really there.
class Chunk {
 public:
  explicit Chunk(const Device& device) {
    amdgpu_bo_alloc_request request{};
    request.alloc_size = kChunkBytes;
    request.preferred_heap = AMDGPU_GEM_DOMAIN_VRAM;
    request.flags = AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED;
    if (amdgpu_bo_alloc(device.get(), &request, &bo_) != 0) return;
    void* base = nullptr;
    if (amdgpu_bo_cpu_map(bo_, &base) != 0) return;
    for (std::uint64_t at = 0; at < kChunkBytes; at += 4096) static_cast<char*>(base)[at] = 1;
    amdgpu_bo_cpu_unmap(bo_);
  }
  ~Chunk() {
    if (bo_ != nullptr) amdgpu_bo_free(bo_);
  }
  Chunk(Chunk&& other) noexcept : bo_(std::exchange(other.bo_, nullptr)) {}
  Chunk& operator=(Chunk&&) = delete;

  bool there() const { return bo_ != nullptr; }

 private:
  amdgpu_bo_handle bo_ = nullptr;
};

void sleep_ms(long ms) {
  constexpr long kSliceMs = 20;
  for (; ms > 0; ms -= kSliceMs) {
    lab::throw_if_stopping("vram-hog");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min(ms, kSliceMs)));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: vram-hog NODE MIB HOLD_MS PAUSE_MS\n");
    return 2;
  }
  try {
    lab::install_stop_handlers();
    const Device device(argv[1]);
    const std::uint64_t chunks = std::strtoull(argv[2], nullptr, 10) * (1u << 20) / kChunkBytes;
    for (;;) {
      {
        std::vector<Chunk> taken;
        for (std::uint64_t i = 0; i < chunks; ++i) {
          Chunk chunk(device);
          if (!chunk.there()) break;
          taken.push_back(std::move(chunk));
        }
        std::printf("%zu\n", static_cast<std::size_t>(taken.size() * kChunkBytes));
        std::fflush(stdout);
        sleep_ms(std::atol(argv[3]));
      }
      sleep_ms(std::atol(argv[4]));
    }
  } catch (const Error& error) {
    if (error.code == ErrorCode::cancelled) return 0;
    std::fprintf(stderr, "vram-hog: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vram-hog: %s\n", error.what());
    return 1;
  }
}
