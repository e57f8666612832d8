// Buffers with contents, and pages files of them.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/file_io.h"
#include "core/pages/pages.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {

/// Bytes that compress well and are not zero.
inline Bytes text(std::size_t size, std::uint64_t seed) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>('a' + (seed + i / 7) % 23);
  return out;
}

/// 16-bit floats as byte planes show them: any low byte, few high ones.
inline Bytes halves(std::size_t size, std::uint64_t seed) {
  Bytes out = noise(size, seed);
  for (std::size_t i = 1; i < size; i += 2) out[i] = std::byte{0x3c} ^ (out[i] & std::byte{0x83});
  return out;
}

struct Content {
  std::uint32_t id;
  Bytes bytes;
  bool operator==(const Content&) const = default;
};

inline PagesSummary write_buffers(PagesWriter& writer, const PagesOptions& options,
                                  const std::vector<Content>& buffers) {
  for (const Content& buffer : buffers) {
    writer.begin_buffer(buffer.id, buffer.bytes.size());
    std::span<const std::byte> rest(buffer.bytes);
    while (!rest.empty()) {
      const auto frame = rest.first(std::min<std::size_t>(rest.size(), options.frame_bytes));
      writer.append(frame);
      rest = rest.subspan(frame.size());
    }
  }
  return writer.finish();
}

inline PagesSummary write_pages(int fd, const PagesOptions& options,
                                const std::vector<Content>& buffers) {
  PagesWriter writer(fd, options);
  return write_buffers(writer, options, buffers);
}

inline std::vector<Content> read_pages(const PagesReader& reader) {
  std::vector<Content> out;
  for (const BufferEntry& buffer : reader.buffers()) {
    Content content{buffer.id, Bytes(buffer.size)};
    std::span<std::byte> rest(content.bytes);
    for (std::uint64_t i = 0; i < buffer.frames; ++i) {
      const std::uint32_t raw = reader.frame(buffer.first_frame + i).raw;
      reader.read_frame(buffer.first_frame + i, rest.first(raw));
      rest = rest.subspan(raw);
    }
    REQUIRE(rest.empty());
    out.push_back(std::move(content));
  }
  return out;
}

}  // namespace kfdcp::test
