#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "core/os/error.h"
#include "core/os/file_io.h"
#include "core/os/page_memory.h"
#include "core/pages/contents_record.h"
#include "core/pages/contents_stream.h"
#include "core/wire/image_files.h"

namespace kfdcp {
namespace {

constexpr char kSubject[] = "contents that arrive";
/// How soon a stop ends a wait.
constexpr int kLookMs = 50;
/// What is read and written at once.
constexpr std::size_t kRoomBytes = 1u << 20;

Error corrupt(const char* reason) {
  return Error(ErrorCode::corrupt, std::string(kSubject) + ": " + reason);
}

class Receiver {
 public:
  Receiver(int fd, int directory, const ReceiveLimits& limits, std::stop_token stop,
           std::atomic<std::uint64_t>& progress)
      : fd_(fd),
        directory_(directory),
        limits_(limits),
        stop_(std::move(stop)),
        progress_(progress),
        room_(page_memory(kRoomBytes)) {}

  ReceivedContents run() {
    for (;;) {
      ContentsRecord record;
      fill(writable_bytes_of(record));
      check(record);
      if (std::memcmp(record.magic, kContentsEnd, sizeof(record.magic)) == 0) {
        end(record);
        return received_;
      }
      take(record);
    }
  }

 private:
  using Name = std::pair<std::uint16_t, std::uint16_t>;

  /// Some bytes, as many as are there; 0 at the end.
  std::size_t some(std::span<std::byte> out) {
    for (;;) {
      pollfd what{.fd = fd_, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&what, 1, kLookMs);
      if (stop_.stop_requested()) {
        throw Error(ErrorCode::cancelled, std::string(kSubject) + ": cancelled");
      }
      if (ready < 0 && errno != EINTR) throw io_error(kSubject);
      if (ready <= 0) continue;
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR && errno != EAGAIN) throw io_error(kSubject);
    }
  }

  void fill(std::span<std::byte> out) {
    while (!out.empty()) {
      const std::size_t got = some(out);
      if (got == 0) throw corrupt("they end in the middle");
      out = out.subspan(got);
    }
  }

  void check(const ContentsRecord& record) const {
    const bool is_piece = std::memcmp(record.magic, kContentsPiece, sizeof(record.magic)) == 0;
    const bool is_end = std::memcmp(record.magic, kContentsEnd, sizeof(record.magic)) == 0;
    if (!is_piece && !is_end) throw corrupt("no record");
    if (record.checksum != record_checksum(record)) throw corrupt("checksum of a record differs");
    if (record.reserved != 0) throw corrupt("a record is of another version");
    if (is_end) return;
    if (record.length == 0) throw corrupt("an empty record");
    const std::uint64_t left = limits_.bytes - received_.bytes;
    if (record.length > left || record.offset > limits_.bytes - record.length) {
      throw Error(ErrorCode::unsupported, std::string(kSubject) + ": more than was announced");
    }
  }

  void take(const ContentsRecord& record) {
    const int file = file_of({record.process, record.gpu});
    std::uint64_t offset = record.offset;
    for (std::size_t left = record.length; left > 0;) {
      const std::span<std::byte> part = room_.bytes().first(std::min(left, kRoomBytes));
      fill(part);
      iovec whole = write_part(part);
      write_exactly(file, {&whole, 1}, offset, kSubject);
      offset += part.size();
      left -= part.size();
      received_.bytes += part.size();
      progress_.store(received_.bytes, std::memory_order_relaxed);
    }
  }

  int file_of(const Name& name) {
    if (const auto found = files_.find(name); found != files_.end()) return found->second.get();
    if (received_.files == limits_.files) {
      throw Error(ErrorCode::unsupported, std::string(kSubject) + ": more files than announced");
    }
    const std::string path = pages_file_name(name.first, name.second);
    UniqueFd fd(::openat(directory_, path.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) throw io_error(path);
    ++received_.files;
    return files_.emplace(name, std::move(fd)).first->second.get();
  }

  void end(const ContentsRecord& record) {
    if (record.process != 0 || record.gpu != 0) throw corrupt("bad last record");
    if (record.length != received_.files || record.offset != received_.bytes) {
      throw corrupt("totals differ");
    }
    // The sender may keep its end open: nobody waits for that.
    pollfd what{.fd = fd_, .events = POLLIN, .revents = 0};
    std::byte more{};
    if (::poll(&what, 1, 0) > 0 && some({&more, 1}) != 0) {
      throw corrupt("something follows the last record");
    }
  }

  const int fd_;
  const int directory_;
  const ReceiveLimits limits_;
  const std::stop_token stop_;
  std::atomic<std::uint64_t>& progress_;
  Mapping room_;
  std::map<Name, UniqueFd> files_;
  ReceivedContents received_;
};

}  // namespace

ReceivedContents receive_contents(int fd, int directory, const ReceiveLimits& limits,
                                  std::stop_token stop, std::atomic<std::uint64_t>& progress) {
  return Receiver(fd, directory, limits, std::move(stop), progress).run();
}

}  // namespace kfdcp
