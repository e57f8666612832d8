#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <limits>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/pages/contents_record.h"
#include "core/pages/contents_stream.h"
#include "core/pages/pages.h"

namespace kfdcp {
namespace {

constexpr char kSubject[] = "contents on their way";
/// How soon a stop ends a wait.
constexpr int kLookMs = 50;
/// Fewer, longer waits; what an unprivileged process may have (pipe(7)).
constexpr int kPipeBytes = 1 << 20;

void wait_for_room(int fd) {
  pollfd what{.fd = fd, .events = POLLOUT, .revents = 0};
  if (::poll(&what, 1, kLookMs) < 0 && errno != EINTR) throw io_error(kSubject);
}

}  // namespace

class ContentsSender::Sink final : public PagesSink {
 public:
  Sink(ContentsSender& stream, std::uint16_t process, std::uint16_t gpu)
      : stream_(stream), process_(process), gpu_(gpu) {}

  void write(std::span<iovec> parts, std::uint64_t offset) override {
    std::uint64_t bytes = 0;
    for (const iovec& part : parts) bytes += part.iov_len;
    if (bytes == 0) return;
    if (bytes > std::numeric_limits<std::uint32_t>::max()) {
      throw Error(ErrorCode::unsupported, std::string(kSubject) + ": a piece is too long");
    }
    const ContentsRecord record =
        contents_record(kContentsPiece, process_, gpu_, static_cast<std::uint32_t>(bytes), offset);
    std::vector<iovec> all{write_part(bytes_of(record))};
    all.insert(all.end(), parts.begin(), parts.end());
    const std::lock_guard lock(stream_.mutex_);
    stream_.send(all);
    stream_.bytes_ += bytes;
  }

 private:
  ContentsSender& stream_;
  const std::uint16_t process_;
  const std::uint16_t gpu_;
};

ContentsSender::ContentsSender(UniqueFd fd) : fd_(std::move(fd)) {
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags | O_NONBLOCK) != 0) throw io_error(kSubject);
  (void)::fcntl(fd_.get(), F_SETPIPE_SZ, kPipeBytes);  // no pipe, or the user has many: as it is
}

ContentsSender::~ContentsSender() = default;

std::unique_ptr<PagesSink> ContentsSender::file(std::uint32_t process, std::uint32_t gpu) {
  if (process > kMaxSiblingOrdinal || gpu > kMaxSiblingOrdinal) {
    throw Error(ErrorCode::protocol, std::string(kSubject) + ": an ordinal is too large");
  }
  const std::lock_guard lock(mutex_);
  ++files_;
  return std::make_unique<Sink>(*this, static_cast<std::uint16_t>(process),
                                static_cast<std::uint16_t>(gpu));
}

void ContentsSender::finish() {
  const std::lock_guard lock(mutex_);
  const ContentsRecord record = contents_record(kContentsEnd, 0, 0, files_, bytes_);
  iovec part = write_part(bytes_of(record));
  send({&part, 1});
}

/// A record whose first part was written must be followed by its rest: a reader could not tell.
void ContentsSender::send(std::span<iovec> parts) {
  if (broken_) throw Error(ErrorCode::io, std::string(kSubject) + ": was cut off", EPIPE);
  broken_ = true;
  while (!parts.empty()) {
    if (stopped_) throw Error(ErrorCode::cancelled, std::string(kSubject) + ": cancelled");
    const int count = static_cast<int>(std::min<std::size_t>(parts.size(), IOV_MAX));
    const ssize_t put = ::writev(fd_.get(), parts.data(), count);
    if (put >= 0) {
      parts = without_first(parts, static_cast<std::size_t>(put));
    } else if (errno == EAGAIN) {
      wait_for_room(fd_.get());
    } else if (errno != EINTR) {
      throw io_error(kSubject);
    }
  }
  broken_ = false;
}

}  // namespace kfdcp
