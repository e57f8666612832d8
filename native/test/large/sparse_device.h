// A GPU with buffers far larger than this host's memory. Nearly all bytes are zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/fd.h"

namespace kfdcp::test {

/// A buffer of `size` bytes, zero but for pages of noise at `noisy`, offsets that are multiples of
/// 4096. Zeros cost no memory. Throws Error{io}.
UniqueFd sparse_buffer(std::uint64_t size, const std::vector<std::uint64_t>& noisy, unsigned seed);
/// All pages of it that are not zero, by offset.
std::map<std::uint64_t, std::vector<std::byte>> pages_of_noise(int fd);

/// Copies between slots and sparse buffers, at once. A page written counts as zero when its first
/// word is: nothing else but zeros and noise is written. A slot that was filled with zeros alone
/// shows one and the same page of them everywhere, so that they are read at the speed of a cache.
class SparseEngine final : public CopyEngine {
 public:
  explicit SparseEngine(const EngineOptions& options);
  ~SparseEngine() override;

  std::size_t slots() const override { return options_.slots; }
  std::size_t slot_bytes() const override { return options_.slot_bytes; }
  std::span<std::byte> slot(std::size_t index) override;
  std::size_t copy_slots() const override { return 1; }
  std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                       std::optional<std::uint64_t> offset) override;
  void start_read(std::span<const CopySegment> from) override;
  void start_write(std::span<const CopySegment> to) override;
  void wait(std::size_t) override {}

  std::uint64_t bytes = 0;            // copied
  std::vector<std::string> breaches;  // bytes that were left out, or copied in another order

 private:
  class Buffer;

  Buffer& next_of(const CopySegment& segment);

  EngineOptions options_;
  Mapping memory_;
  Mapping zeros_;
  std::vector<bool> zero_;  // by slot: shows zeros_
};

}  // namespace kfdcp::test
