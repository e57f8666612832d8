#include "core/copy_staging.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "core/error.h"

namespace kfdcp {
namespace {

constexpr std::size_t kPage = 4096;

EngineOptions checked(const EngineOptions& options) {
  const std::size_t slots = options.slots;
  const std::size_t bytes = options.slot_bytes;
  if (slots == 0 || slots > kMaxSlots) {
    throw Error(ErrorCode::unsupported, "staging: " + std::to_string(slots) +
                                            " slots asked for, 1 to " + std::to_string(kMaxSlots) +
                                            " possible");
  }
  if (bytes == 0 || bytes % kPage != 0 || bytes > kMaxStagingBytes / slots) {
    throw Error(ErrorCode::unsupported, "staging: a slot of " + std::to_string(bytes) +
                                            " bytes is not made of whole pages or exceeds " +
                                            std::to_string(kMaxStagingBytes) +
                                            " bytes with the others");
  }
  return options;
}

Mapping anonymous(std::size_t size) {
  void* base = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw io_error("staging of " + std::to_string(size) + " bytes");
  Mapping memory(base, size);
  // A fork would make the pages copy-on-write and tear them from under the GPU.
  if (::madvise(base, size, MADV_DONTFORK) != 0) throw io_error("staging: MADV_DONTFORK");
  // Fewer page table entries, for the GPU too. Kernels without huge pages refuse: no matter.
  (void)::madvise(base, size, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

Staging::Staging(const EngineOptions& options)
    : options_(checked(options)), memory_(anonymous(options.slots * options.slot_bytes)) {}

std::span<std::byte> Staging::slot(std::size_t index) const {
  if (index >= options_.slots) {
    throw Error(ErrorCode::gpu, "staging: there is no slot " + std::to_string(index));
  }
  return all().subspan(index * options_.slot_bytes, options_.slot_bytes);
}

void check_copy(const Staging& staging, std::uint64_t buffer_size, std::uint64_t offset,
                std::size_t bytes) {
  if (bytes == 0 || bytes > staging.slot_bytes() || offset > buffer_size ||
      bytes > buffer_size - offset) {
    throw Error(ErrorCode::gpu, "copy of " + std::to_string(bytes) + " bytes at " +
                                    std::to_string(offset) + " of a buffer of " +
                                    std::to_string(buffer_size) +
                                    " bytes: outside the buffer or larger than a slot of " +
                                    std::to_string(staging.slot_bytes()) + " bytes");
  }
}

}  // namespace kfdcp
