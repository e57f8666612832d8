// The copy engine of the CPU: memcpy through an mmap of the dma-buf.
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "core/copy/copy_engine.h"
#include "core/copy/copy_staging.h"
#include "core/drm/dmabuf.h"
#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp {
namespace {

Error cpu_error(const std::string& call, std::uint64_t size) {
  const int err = errno;
  return Error(ErrorCode::gpu,
               call + " of a buffer of " + std::to_string(size) + " bytes: " + std::strerror(err),
               err);
}

class CpuBuffer final : public DeviceBuffer {
 public:
  CpuBuffer(int dmabuf_fd, std::uint64_t size, std::optional<std::uint64_t> offset)
      : size_(size), offset_(offset.value_or(0)) {
    // A mapping past the end would raise SIGBUS later.
    drm::check_content(drm::dmabuf_bytes(dmabuf_fd), size, offset);
    fd_ = UniqueFd(::fcntl(dmabuf_fd, F_DUPFD_CLOEXEC, 0));
    if (!fd_) throw cpu_error("dup", size);
    // A buffer that the GPU may not write has a read-only dma-buf. It can still be drained.
    if (!map(PROT_READ | PROT_WRITE) && !(errno == EACCES && map(PROT_READ))) {
      throw cpu_error("mmap", size);
    }
  }

  std::uint64_t size() const { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> to) {
    Access access(*this, DMA_BUF_SYNC_READ);
    std::memcpy(to.data(), memory_.data() + offset, to.size());
    access.end();
  }

  void write(std::uint64_t offset, std::span<const std::byte> from) {
    if (!writable_) {
      errno = EACCES;
      throw cpu_error("write", size_);
    }
    Access access(*this, DMA_BUF_SYNC_WRITE);
    std::memcpy(memory_.data() + offset, from.data(), from.size());
    access.end();
  }

 private:
  /// Brackets CPU access, as the dma-buf contract wants. A file that is no dma-buf needs none.
  class Access {
   public:
    Access(CpuBuffer& buffer, std::uint64_t direction) : buffer_(buffer), direction_(direction) {
      sync(DMA_BUF_SYNC_START);
    }
    void end() { sync(DMA_BUF_SYNC_END); }

   private:
    void sync(std::uint64_t phase) {
      if (!buffer_.needs_sync_) return;
      dma_buf_sync args{};
      args.flags = phase | direction_;
      int r = 0;
      do {
        r = ::ioctl(buffer_.fd_.get(), DMA_BUF_IOCTL_SYNC, &args);
      } while (r != 0 && (errno == EINTR || errno == EAGAIN));
      if (r == 0) return;
      if (errno != ENOTTY) throw cpu_error("DMA_BUF_IOCTL_SYNC", buffer_.size_);
      buffer_.needs_sync_ = false;
    }

    CpuBuffer& buffer_;
    std::uint64_t direction_;
  };

  bool map(int protection) {
    void* base =
        ::mmap(nullptr, size_, protection, MAP_SHARED, fd_.get(), static_cast<off_t>(offset_));
    if (base == MAP_FAILED) return false;
    memory_ = Mapping(base, size_);
    writable_ = (protection & PROT_WRITE) != 0;
    return true;
  }

  std::uint64_t size_;
  std::uint64_t offset_;
  UniqueFd fd_;
  Mapping memory_;
  bool writable_ = false;
  bool needs_sync_ = true;
};

class CpuEngine final : public CopyEngine {
 public:
  explicit CpuEngine(const EngineOptions& options) : staging_(options) {}

  std::size_t slots() const override { return staging_.slots(); }
  std::size_t slot_bytes() const override { return staging_.slot_bytes(); }
  std::span<std::byte> slot(std::size_t index) override { return staging_.slot(index); }
  /// Whoever starts a copy has to wait for it: one slot at a time.
  std::size_t copy_slots() const override { return 1; }

  std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                       std::optional<std::uint64_t> offset) override {
    return std::make_unique<CpuBuffer>(dmabuf_fd, size, offset);
  }

  void start_read(std::span<const CopySegment> from) override {
    (void)slots_of(from);
    for (const CopySegment& segment : from) {
      const auto [buffer, memory] = checked(segment);
      buffer.read(segment.offset, memory);
    }
  }

  void start_write(std::span<const CopySegment> to) override {
    (void)slots_of(to);
    for (const CopySegment& segment : to) {
      const auto [buffer, memory] = checked(segment);
      buffer.write(segment.offset, memory);
    }
  }

  void wait(std::size_t slot) override { (void)staging_.slot(slot); }

 private:
  struct Copy {
    CpuBuffer& buffer;
    std::span<std::byte> memory;
  };

  Copy checked(const CopySegment& segment) const {
    auto& buffer = dynamic_cast<CpuBuffer&>(*segment.buffer);
    check_segment(staging_, segment, buffer.size());
    return {buffer, staging_.slot(segment.slot).subspan(segment.slot_offset, segment.bytes)};
  }

  Staging staging_;
};

}  // namespace

std::unique_ptr<CopyEngine> make_cpu_engine(const EngineOptions& options) {
  return std::make_unique<CpuEngine>(options);
}

}  // namespace kfdcp
