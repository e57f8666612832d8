// Known pseudo-random contents, cheap enough to make and check gigabytes under emulation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lab {

/// The expected bytes of every buffer of one run. Two places of a run never hold the same 64 KiB: a
/// key made of (seed, buffer, block number) is XORed over a shared table of random words, so the
/// price is one XOR per word and the result still does not compress, unless words repeat.
class Pattern {
 public:
  /// Bytes that share one key; also the unit of comparison.
  static constexpr std::size_t kBlockBytes = 64 * 1024;

  /// `repeats`: how often each word comes one after the other.
  explicit Pattern(std::uint64_t seed, std::size_t repeats = 1);

  /// Writes what `buffer` holds at byte `offset`. `offset` and the size are multiples of 8.
  void write(std::uint32_t buffer, std::uint64_t offset, std::span<std::byte> out) const;

  /// Compares `bytes` with what `buffer` holds at byte `offset` (both multiples of 8).
  /// Throws Error{corrupt} "<what>: byte <n> is <x>, expected <y>" for the first difference.
  void check(const std::string& what, std::uint32_t buffer, std::uint64_t offset,
             std::span<const std::byte> bytes) const;

 private:
  std::uint64_t seed_;
  std::vector<std::uint64_t> table_;
};

/// Buffer numbers of contents that are not in VRAM; VRAM buffers count up from 0.
enum PatternBuffer : std::uint32_t {
  kHostMemory = 0xf0000000,
  kCounterBlock,
  kGemObject,
  kSplitFile,
  kSplitBuffers,
  kChurn = 0xf1000000,
  kShared = 0xf2000000,      // plus the generation
  kBareMemory = 0xf3000000,  // plus kind and generation
  kSvmMemory = 0xf4000000,
  kOtherGpu = 0xf5000000,
  kChangingRest = 0xf6000000,
  kChanging = 0xf7000000,  // plus the generation
};

}  // namespace lab
