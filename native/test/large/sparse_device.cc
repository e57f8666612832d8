#include "test/large/sparse_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/os/page_memory.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {
namespace {

/// Begin of the next data (SEEK_DATA) or hole (SEEK_HOLE) from `offset` on; `size`: none.
std::uint64_t next(int fd, std::uint64_t offset, int what, std::uint64_t size) {
  const off_t at = ::lseek(fd, static_cast<off_t>(offset), what);
  if (at < 0 && errno != ENXIO) throw io_error("lseek");
  return at < 0 ? size : static_cast<std::uint64_t>(at);
}

std::uint64_t size_of(int fd) {
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0) throw io_error("lseek");
  return static_cast<std::uint64_t>(size);
}

void write_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  iovec part = write_part(bytes);
  write_exactly(fd, {&part, 1}, offset, "sparse buffer");
}

/// Pages that are never written are all one page.
Mapping zero_pages(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw io_error("mmap of zeros");
  (void)::madvise(base, bytes, MADV_NOHUGEPAGE);
  return Mapping(base, bytes);
}

}  // namespace

UniqueFd sparse_buffer(std::uint64_t size, const std::vector<std::uint64_t>& noisy, unsigned seed) {
  UniqueFd fd(::memfd_create("sparse", MFD_CLOEXEC));
  if (!fd) throw io_error("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) throw io_error("ftruncate");
  for (const std::uint64_t offset : noisy) {
    write_at(fd.get(), noise(kPageBytes, seed + static_cast<unsigned>(offset / kPageBytes)),
             offset);
  }
  return fd;
}

std::map<std::uint64_t, std::vector<std::byte>> pages_of_noise(int fd) {
  const std::uint64_t size = size_of(fd);
  std::map<std::uint64_t, std::vector<std::byte>> pages;
  for (std::uint64_t at = next(fd, 0, SEEK_DATA, size); at < size;
       at = next(fd, at, SEEK_DATA, size)) {
    for (const std::uint64_t end = next(fd, at, SEEK_HOLE, size); at < end; at += kPageBytes) {
      std::vector<std::byte> page(kPageBytes);
      read_exactly(fd, page, at, "sparse buffer");
      pages.emplace(at, std::move(page));
    }
  }
  return pages;
}

class SparseEngine::Buffer final : public DeviceBuffer {
 public:
  Buffer(SparseEngine& engine, int fd, std::uint64_t size) : fd(fd), size(size), engine_(engine) {
    if (size_of(fd) != size) engine_.breaches.push_back("imported with another size");
  }
  ~Buffer() override {
    if (done != size) engine_.breaches.push_back("left after " + std::to_string(done) + " bytes");
  }

  bool is_zero(std::uint64_t offset, std::size_t bytes) const {
    return next(fd, offset, SEEK_DATA, size) >= offset + bytes;
  }

  const int fd;
  const std::uint64_t size;
  std::uint64_t done = 0;

 private:
  SparseEngine& engine_;
};

SparseEngine::SparseEngine(const EngineOptions& options)
    : options_(options),
      memory_(page_memory(options.slots * options.slot_bytes)),
      zeros_(zero_pages(options.slot_bytes)),
      zero_(options.slots, false) {}

SparseEngine::~SparseEngine() = default;

std::span<std::byte> SparseEngine::slot(std::size_t index) {
  if (zero_.at(index)) return zeros_.bytes();
  return memory_.bytes().subspan(index * options_.slot_bytes, options_.slot_bytes);
}

std::unique_ptr<DeviceBuffer> SparseEngine::import(int dmabuf_fd, std::uint64_t size,
                                                   std::optional<std::uint64_t> offset) {
  if (offset) breaches.push_back("imported from its middle");
  return std::make_unique<Buffer>(*this, dmabuf_fd, size);
}

SparseEngine::Buffer& SparseEngine::next_of(const CopySegment& segment) {
  auto& buffer = dynamic_cast<Buffer&>(*segment.buffer);
  if (segment.offset != buffer.done) {
    breaches.push_back("copy of bytes at " + std::to_string(segment.offset) + " after " +
                       std::to_string(buffer.done));
  }
  buffer.done += segment.bytes;
  bytes += segment.bytes;
  return buffer;
}

void SparseEngine::start_read(std::span<const CopySegment> from) {
  const std::size_t slot = from.front().slot;
  bool zero = true;
  for (const CopySegment& segment : from) {
    zero = next_of(segment).is_zero(segment.offset, segment.bytes) && zero;
  }
  zero_.at(slot) = zero;
  if (zero) return;
  for (const CopySegment& segment : from) {
    read_exactly(dynamic_cast<Buffer&>(*segment.buffer).fd,
                 this->slot(slot).subspan(segment.slot_offset, segment.bytes), segment.offset,
                 "sparse buffer");
  }
}

void SparseEngine::start_write(std::span<const CopySegment> to) {
  for (const CopySegment& segment : to) {
    const Buffer& buffer = next_of(segment);
    const std::byte* memory = slot(segment.slot).data() + segment.slot_offset;
    for (std::size_t at = 0; at < segment.bytes; at += kPageBytes) {
      std::uint64_t word = 0;
      std::memcpy(&word, memory + at, sizeof(word));
      if (word != 0) write_at(buffer.fd, {memory + at, kPageBytes}, segment.offset + at);
    }
  }
}

}  // namespace kfdcp::test
