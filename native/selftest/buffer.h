// Memory that the GPU works on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kfd/kfd.h"
#include "core/os/fd.h"
#include "selftest/gpu.h"

namespace kfdcp::selftest {

/// KFD memory, mapped for the GPU at the address that it has in this process.
class Buffer {
 public:
  /// VRAM that the CPU cannot touch.
  static Buffer vram(Gpu& gpu, std::size_t bytes);
  /// System memory that CPU and GPU use at the same time.
  static Buffer gtt(Gpu& gpu, std::size_t bytes);
  /// The pages of this process at `user`, which stay the caller's.
  static Buffer userptr(Gpu& gpu, std::span<std::byte> user);
  /// The buffer of a dma-buf of another process, which the CPU cannot touch.
  static Buffer imported(Gpu& gpu, int dmabuf, std::size_t bytes);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();

  std::size_t size() const { return bytes_.size(); }
  /// Of VRAM, addresses that nobody may touch.
  std::span<std::byte> bytes() const { return bytes_; }
  /// GPU address of byte `offset`.
  std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset;
  }
  /// As other calls of KFD want it.
  std::uint64_t handle() const;
  /// A dma-buf of it. Throws Error{gpu}.
  UniqueFd export_dmabuf() const;

  std::uint32_t& word(std::size_t offset) const {
    return *reinterpret_cast<std::uint32_t*>(bytes_.data() + offset);
  }
  std::uint64_t& long_word(std::size_t offset) const {
    return *reinterpret_cast<std::uint64_t*>(bytes_.data() + offset);
  }

 private:
  Buffer(Gpu& gpu, Mapping reserved, std::span<std::byte> bytes);
  /// Makes the BO, and maps it for the GPU. Returns the offset for mmap.
  std::uint64_t allocate(std::uint32_t flags, std::uint64_t user);

  Gpu* gpu_;          // null once moved from
  Mapping reserved_;  // not of a userptr
  std::span<std::byte> bytes_;
  kfd::BoHandle bo_{};
  bool mapped_ = false;
};

/// Anonymous memory of this process. Throws Error{io}.
Mapping host_memory(std::size_t bytes);

/// Words that the GPU writes, too.
std::uint32_t load(const std::uint32_t& word);
std::uint64_t load(const std::uint64_t& word);
void store(std::uint32_t& word, std::uint32_t value);
void store(std::uint64_t& word, std::uint64_t value);

}  // namespace kfdcp::selftest
