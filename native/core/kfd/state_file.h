// State files: plain structs one after the other, behind a header and before a checksum.
// docs/image-format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace kfdcp {

/// Bytes of the largest state file: all of it is held in memory. src/manifest/schema.ts has the
/// same.
inline constexpr std::size_t kMaxStateBytes = 1u << 30;
/// Records of one kind in a state file. A bound for hostile files, far above any real process.
inline constexpr std::size_t kMaxStateRecords = 1u << 20;
/// Bytes of the largest BO, as in a manifest.
inline constexpr std::uint64_t kMaxBoBytes = std::uint64_t{1} << 50;
/// GPUs of one process. A manifest has no more.
inline constexpr std::size_t kMaxStateDevices = 256;

/// How the header of every state file begins.
struct StatePrefix {
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;
  std::uint64_t required_features;
  std::uint64_t optional_features;
  std::uint64_t file_bytes;
};
static_assert(sizeof(StatePrefix) == 40);

/// One kind of state file, for the checks they have in common.
struct StateKind {
  const char* name;  // "state file"
  std::array<char, 8> magic;
  std::uint32_t version;
  std::uint32_t header_bytes;

  /// The prefix of a file of this kind; its length is for the caller to fill in.
  StatePrefix prefix() const;
  /// Throws Error{corrupt} "<name>: <reason>".
  [[noreturn]] void corrupt(const std::string& reason) const;
  /// The number of records of one kind, for a writer. Throws Error{unsupported} above `most`.
  std::uint32_t count(std::size_t n, std::size_t most = kMaxStateRecords) const;
  /// The same limit for a reader. Throws Error{corrupt}.
  void check_count(std::uint32_t n, std::size_t most = kMaxStateRecords) const;
  /// The header of a file of `bytes` bytes that begins with `head`. Its checksum is not checked.
  /// Throws as open().
  template <class Header, class CheckCounts>
  Header head(std::span<const std::byte> head, std::uint64_t bytes,
              CheckCounts&& check_counts) const;
  /// The header of `file`, which is of this kind and whole; `rest` becomes everything behind it,
  /// with the checksum. `check_counts` throws for counts that do not go with the length of the
  /// file. Throws Error{corrupt|unsupported}.
  template <class Header, class CheckCounts>
  Header open(std::span<const std::byte> file, std::span<const std::byte>& rest,
              CheckCounts&& check_counts) const;

 private:
  /// Before any other field is believed: Error{corrupt|unsupported}.
  void check(const StatePrefix& prefix, std::uint64_t actual_bytes) const;
  /// After the checksum, so that damage is not taken for a newer format:
  /// Error{corrupt|unsupported}.
  void check_features(const StatePrefix& prefix, std::span<const std::uint8_t> reserved) const;
  /// Throws Error{corrupt} unless `bytes` ends with the checksum of all bytes before it. There must
  /// be a whole header.
  void check_sum(std::span<const std::byte> bytes) const;
};

/// Ends a file: `rest` is the end of `file`, the 8 bytes for its checksum.
void put_sum(std::span<const std::byte> file, std::span<std::byte>& rest);

/// Writes `values` over the front of `out`, which has room for them.
template <typename T>
requires std::is_trivially_copyable_v<T>
void put(std::span<std::byte>& out, std::span<const T> values) {
  if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
  out = out.subspan(values.size_bytes());
}

/// Takes `n` values off the front; the caller has checked that they are there.
template <typename T>
requires std::is_trivially_copyable_v<T> std::vector<T> take(std::span<const std::byte>& in,
                                                             std::size_t n) {
  std::vector<T> out(n);
  if (n > 0) std::memcpy(out.data(), in.data(), n * sizeof(T));
  in = in.subspan(n * sizeof(T));
  return out;
}

template <class Header, class CheckCounts>
Header StateKind::head(std::span<const std::byte> head, std::uint64_t bytes,
                       CheckCounts&& check_counts) const {
  if (head.size() < sizeof(Header)) corrupt("too short");
  const Header header = take<Header>(head, 1)[0];
  check(header.prefix, bytes);
  check_counts(header);
  return header;
}

template <class Header, class CheckCounts>
Header StateKind::open(std::span<const std::byte> file, std::span<const std::byte>& rest,
                       CheckCounts&& check_counts) const {
  if (file.size() < sizeof(Header) + sizeof(std::uint64_t)) corrupt("too short");
  const auto header = head<Header>(file, file.size(), check_counts);
  rest = file.subspan(sizeof(Header));
  check_sum(file);
  check_features(header.prefix, header.reserved);
  return header;
}

}  // namespace kfdcp
