// A pages file to damage, and whether its readers notice.
#pragma once

#include <optional>
#include <vector>

#include "core/pages/pages_check.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_forge.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {

/// Every codec, several buffers, one of two frames; small enough to change every bit of it.
struct PagesSample {
  explicit PagesSample(Compress compress = Compress::zstd, const Bytes& packed = text(3000, 2)) {
    PagesOptions options;
    options.compress = compress;
    options.frame_bytes = 1u << 20;
    Bytes two_frames(options.frame_bytes + 64);
    two_frames.back() = std::byte{1};
    buffers = {{5, noise(300, 1)}, {6, packed}, {7, Bytes(512)}, {8, noise(64, 3)}};
    const UniqueFd fd = memory_file();
    write_pages(fd.get(), options, buffers);
    file = content_of(fd.get());
    buffers_of_two = {{9, two_frames}, {2, noise(100, 4)}};
    const UniqueFd other = memory_file();
    write_pages(other.get(), options, buffers_of_two);
    file_of_two = content_of(other.get());
  }
  std::vector<Content> buffers, buffers_of_two;
  Bytes file, file_of_two;
};

inline std::optional<ErrorCode> open_code(const Bytes& file) {
  const UniqueFd fd = memory_file(file);
  return code_of([&] { PagesReader reader(fd.get()); });
}

inline std::optional<ErrorCode> stream_code(const Bytes& file) {
  return code_of([&] {
    PagesStreamCheck check;
    check.feed(file);
    check.finish();
  });
}

/// Both readers refuse it for the same kind of reason.
inline bool refused(const Bytes& file, ErrorCode code = ErrorCode::corrupt) {
  return open_code(file) == code && stream_code(file) == code;
}

}  // namespace kfdcp::test
