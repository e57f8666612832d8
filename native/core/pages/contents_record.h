// The records of a contents stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/pages/frame_bytes.h"
#include "core/pages/hash.h"

namespace kfdcp {

/// Before the bytes of a record. Of the last record: `offset` is the sum of all lengths, `length`
/// the number of files; no bytes follow.
struct ContentsRecord {
  char magic[4];
  std::uint16_t process;
  std::uint16_t gpu;
  std::uint32_t length;  // bytes that follow
  std::uint32_t reserved;
  std::uint64_t offset;    // of the first of them in the file
  std::uint64_t checksum;  // XXH3-64 of all before it
};
static_assert(sizeof(ContentsRecord) == 32);

inline constexpr char kContentsPiece[] = "KFDP";
inline constexpr char kContentsEnd[] = "KFDE";

inline std::uint64_t record_checksum(const ContentsRecord& record) {
  return xxh3_64(bytes_of(record).first(offsetof(ContentsRecord, checksum)));
}

inline ContentsRecord contents_record(const char (&magic)[5], std::uint16_t process,
                                      std::uint16_t gpu, std::uint32_t length,
                                      std::uint64_t offset) {
  ContentsRecord record{.magic = {},
                        .process = process,
                        .gpu = gpu,
                        .length = length,
                        .reserved = 0,
                        .offset = offset,
                        .checksum = 0};
  std::memcpy(record.magic, magic, sizeof(record.magic));
  record.checksum = record_checksum(record);
  return record;
}

}  // namespace kfdcp
