#include "core/kfd/state_file.h"

#include "core/os/error.h"
#include "core/pages/frame_bytes.h"
#include "core/pages/hash.h"

namespace kfdcp {

StatePrefix StateKind::prefix() const {
  return {.magic = magic,
          .version = version,
          .header_bytes = header_bytes,
          .required_features = 0,
          .optional_features = 0,
          .file_bytes = 0};
}

void StateKind::corrupt(const std::string& reason) const {
  throw Error(ErrorCode::corrupt, std::string(name) + ": " + reason);
}

std::uint32_t StateKind::count(std::size_t n, std::size_t most) const {
  if (n > most) throw Error(ErrorCode::unsupported, std::string(name) + ": too many records");
  return static_cast<std::uint32_t>(n);
}

void StateKind::check_count(std::uint32_t n, std::size_t most) const {
  if (n > most) corrupt("too many records");
}

void StateKind::check(const StatePrefix& prefix, std::uint64_t actual_bytes) const {
  if (prefix.magic != magic) corrupt("bad magic");
  if (prefix.version != version) {
    throw Error(ErrorCode::unsupported,
                std::string(name) + ": version " + std::to_string(prefix.version));
  }
  if (prefix.header_bytes != header_bytes) corrupt("bad header size");
  if (prefix.file_bytes != actual_bytes) corrupt("another length than its header says");
}

void StateKind::check_features(const StatePrefix& prefix,
                               std::span<const std::uint8_t> reserved) const {
  if (prefix.required_features != 0) {
    throw Error(ErrorCode::unsupported, std::string(name) + ": required features " +
                                            std::to_string(prefix.required_features));
  }
  if (prefix.optional_features == 0 && !all_zero(std::as_bytes(reserved))) {
    corrupt("reserved header bytes set");
  }
}

void StateKind::check_sum(std::span<const std::byte> bytes) const {
  std::uint64_t checksum;
  std::memcpy(&checksum, bytes.last(sizeof checksum).data(), sizeof checksum);
  if (checksum != xxh3_64(bytes.first(bytes.size() - sizeof checksum))) corrupt("checksum differs");
}

void put_sum(std::span<const std::byte> file, std::span<std::byte>& rest) {
  const std::uint64_t checksum = xxh3_64(file.first(file.size() - rest.size()));
  put<std::uint64_t>(rest, {&checksum, 1});
}

}  // namespace kfdcp
