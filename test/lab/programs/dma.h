// Moving bytes by the GPU's SDMA engines, through one pinned staging buffer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "pattern.h"
#include "runtime.h"

namespace lab {

/// Host to VRAM and back. One copy at a time.
class Dma {
 public:
  /// Staging in bytes: large, because under emulation the price is per copy.
  static constexpr std::size_t kStagingBytes = std::size_t{8} << 20;

  /// `limit` bounds every single copy.
  Dma(const Runtime& runtime, std::chrono::milliseconds limit);

  /// The first `size` bytes of staging, for the caller to fill or to read. `size` <= kStagingBytes.
  std::span<std::byte> staging(std::size_t size) const;
  /// Copies the first `size` bytes of staging to `vram`. Throws Error{gpu} or Error{cancelled}.
  void upload(void* vram, std::size_t size);
  /// Copies `size` bytes of `vram` to staging. Throws Error{gpu} or Error{cancelled}.
  void download(const void* vram, std::size_t size);

  /// Writes the contents of `buffer` to all of `vram`.
  void fill(std::span<std::byte> vram, const Pattern& pattern, std::uint32_t buffer);
  /// Reads all of `vram` back and compares. Throws what Pattern::check throws.
  void verify(std::span<const std::byte> vram, const Pattern& pattern, std::uint32_t buffer);

 private:
  void copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
            std::size_t size, const char* what);

  const Runtime& runtime_;
  const std::chrono::milliseconds limit_;
  PoolBuffer staging_;
  Signal done_;
};

/// The VRAM the worker was asked to hold: buffer i holds the pattern of buffer i.
class VramBuffers {
 public:
  /// Adds and fills `count` buffers of `size` bytes. Throws Error{gpu}.
  void add(const Runtime& runtime, Dma& dma, const Pattern& pattern, std::size_t count,
           std::size_t size);
  /// Reads back and compares every byte. Throws what Dma::verify throws.
  void verify(Dma& dma, const Pattern& pattern) const;

  /// Flips one bit in the middle of the last buffer, so that verify() has to fail. There must be a
  /// buffer.
  void spoil(Dma& dma) const;

  std::uint64_t bytes() const;
  std::size_t count() const { return buffers_.size(); }
  const PoolBuffer& front() const { return buffers_.front(); }

 private:
  std::vector<PoolBuffer> buffers_;
};

}  // namespace lab
