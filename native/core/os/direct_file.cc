#include "core/os/direct_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/os/page_memory.h"

namespace kfdcp {
namespace {

// For smaller requests the cost of the call dominates, and read-ahead is faster.
constexpr std::size_t kFewestBytes = 128u << 10;
// Checked for each request: the cache holds ranges, not single pages.
constexpr std::size_t kSamples = 8;

UniqueFd open_direct(int fd, int access) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  return UniqueFd(::open(path.c_str(), access | O_DIRECT | O_CLOEXEC));
}

Mapping map_for_residency(int fd, std::uint64_t length) {
  if (length == 0) return {};
  void* base = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, 0);
  return base == MAP_FAILED ? Mapping() : Mapping(base, length);
}

}  // namespace

DirectFile::DirectFile(int fd, int access, std::uint64_t length)
    : fd_(fd),
      direct_(open_direct(fd, access)),
      view_(direct_ ? map_for_residency(fd, length) : Mapping()),
      accepted_(static_cast<bool>(direct_)) {}

bool DirectFile::resident(std::uint64_t offset, std::size_t bytes) const {
  if (view_.data() == nullptr || offset + bytes > view_.size()) return true;
  std::size_t found = 0;
  const std::size_t step = std::max(bytes / kSamples, kPageBytes) & ~(kPageBytes - 1);
  std::size_t looked = 0;
  for (std::size_t at = 0; at < bytes; at += step, ++looked) {
    unsigned char page = 0;
    if (::mincore(view_.data() + offset + at, kPageBytes, &page) != 0) return true;
    found += page & 1u;
  }
  return found * 4 > looked;
}

void DirectFile::read(std::span<std::byte> out, std::uint64_t offset, const char* subject) {
  const bool whole = page_aligned(out.data()) && page_aligned(out.size()) && page_aligned(offset);
  if (whole && out.size() >= kFewestBytes && accepted_ && !resident(offset, out.size())) {
    while (!out.empty() && page_aligned(out.size())) {
      const ssize_t got =
          ::pread(direct_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EINVAL) accepted_ = false;
      if (got <= 0) break;  // the page cache's answer is the one that is reported
      out = out.subspan(static_cast<std::size_t>(got));
      offset += static_cast<std::uint64_t>(got);
      direct_bytes_ += static_cast<std::uint64_t>(got);
    }
  }
  read_exactly(fd_, out, offset, subject);
}

void DirectFile::write(std::span<iovec> parts, std::uint64_t offset, const char* subject) {
  const bool whole = page_aligned(offset) && std::ranges::all_of(parts, [](const iovec& part) {
                       return page_aligned(part.iov_base) && page_aligned(part.iov_len);
                     });
  std::uint64_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  if (whole && bytes >= kFewestBytes && accepted_) {
    const ssize_t put = ::pwritev(direct_.get(), parts.data(), static_cast<int>(parts.size()),
                                  static_cast<off_t>(offset));
    if (put < 0 && errno == EINVAL) accepted_ = false;
    if (put > 0) {
      // A nearly full disk writes a part. Writing the rest returns the reason.
      parts = without_first(parts, static_cast<std::size_t>(put));
      offset += static_cast<std::uint64_t>(put);
      bytes -= static_cast<std::uint64_t>(put);
      direct_bytes_ += static_cast<std::uint64_t>(put);
    }
  }
  if (bytes == 0) return;
  write_exactly(fd_, parts, offset, subject);
  // Up to the last whole page: the next frame writes to the page after it. A disk that does not
  // start now is no error; the sync reports it.
  const std::uint64_t begin = offset & ~std::uint64_t{kPageBytes - 1};
  const std::uint64_t end = (offset + bytes) & ~std::uint64_t{kPageBytes - 1};
  if (end > begin) {
    (void)::sync_file_range(fd_, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                            SYNC_FILE_RANGE_WRITE);
  }
}

}  // namespace kfdcp
