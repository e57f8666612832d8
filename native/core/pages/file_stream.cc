#include "core/pages/file_stream.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <zstd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/os/error.h"

namespace kfdcp {
namespace {

constexpr char kSubject[] = "a file on its way";
/// How soon a stop ends a wait.
constexpr int kLookMs = 50;
/// How soon it is seen that the file has grown.
constexpr std::chrono::milliseconds kGrowth{10};
/// Host memory compresses well at any level. This one keeps up with a fast network.
constexpr int kLevel = 1;
/// As a power of two, what a decoder keeps at most. A hostile stream must not get gigabytes.
constexpr int kWindowLogMax = 27;
/// What is read at once.
constexpr std::size_t kRoomBytes = 1u << 20;

Error cancelled() { return {ErrorCode::cancelled, std::string(kSubject) + ": cancelled"}; }

std::size_t checked(std::size_t result, ErrorCode code) {
  if (ZSTD_isError(result) == 0) return result;
  throw Error(code, std::string(kSubject) + ": zstd: " + ZSTD_getErrorName(result));
}

/// Waits for one end of a pipe, for a while. Returns whether it is ready.
bool wait_for(int fd, short what) {
  pollfd end{.fd = fd, .events = what, .revents = 0};
  const int ready = ::poll(&end, 1, kLookMs);
  if (ready < 0 && errno != EINTR) throw io_error(kSubject);
  return ready > 0;
}

void put(int fd, std::span<const char> bytes, const std::stop_token& stop) {
  while (!bytes.empty()) {
    if (stop.stop_requested()) throw cancelled();
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      wait_for(fd, POLLOUT);
    } else if (errno != EINTR) {
      throw io_error(kSubject);
    }
  }
}

/// So that a stop ends a wait for the reader.
void unblock(int pipe) {
  const int flags = ::fcntl(pipe, F_GETFL);
  if (flags < 0 || ::fcntl(pipe, F_SETFL, flags | O_NONBLOCK) != 0) throw io_error(kSubject);
}

class Encoder {
 public:
  Encoder(int fd, const std::stop_token& stop)
      : fd_(fd),
        stop_(stop),
        context_(ZSTD_createCCtx(), ZSTD_freeCCtx),
        out_(ZSTD_CStreamOutSize()) {
    if (!context_) throw Error(ErrorCode::io, "zstd: no memory", ENOMEM);
    set(ZSTD_c_compressionLevel, kLevel);
    set(ZSTD_c_checksumFlag, 1);
  }

  void take(std::span<const char> bytes, ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool is_done = false; !is_done;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const std::size_t left =
          checked(ZSTD_compressStream2(context_.get(), &out, &in, directive), ErrorCode::io);
      put(fd_, {out_.data(), out.pos}, stop_);
      is_done = directive == ZSTD_e_continue ? in.pos == in.size : left == 0;
    }
  }

 private:
  void set(ZSTD_cParameter parameter, int value) {
    checked(ZSTD_CCtx_setParameter(context_.get(), parameter, value), ErrorCode::io);
  }

  const int fd_;
  const std::stop_token stop_;
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context_;
  std::vector<char> out_;
};

}  // namespace

FileSender::FileSender(UniqueFd file, UniqueFd pipe)
    : file_(std::move(file)), pipe_(std::move(pipe)) {
  unblock(pipe_.get());
}

std::uint64_t FileSender::run(const std::stop_token& stop) {
  const UniqueFd pipe = std::move(pipe_);
  const UniqueFd file = std::move(file_);
  Encoder encoder(pipe.get(), stop);
  std::vector<char> room(kRoomBytes);
  bool holds_back = false;  // the encoder has what the reader could have already
  for (;;) {
    // Asked first: what was written before the end is seen below.
    const bool is_whole = ended_;
    const ssize_t got =
        ::pread(file.get(), room.data(), room.size(), static_cast<off_t>(bytes_.load()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw io_error(kSubject);
    if (got > 0) {
      // First: who waits for a reader that takes nothing at all must see that there is something.
      bytes_ += static_cast<std::uint64_t>(got);
      encoder.take({room.data(), static_cast<std::size_t>(got)}, ZSTD_e_continue);
      holds_back = true;
      continue;
    }
    if (is_whole) break;
    if (stop.stop_requested()) throw cancelled();
    if (std::exchange(holds_back, false)) encoder.take({}, ZSTD_e_flush);
    std::this_thread::sleep_for(kGrowth);
  }
  encoder.take({}, ZSTD_e_end);
  return bytes_;
}

namespace {

class Decoder {
 public:
  Decoder(int file, std::uint64_t limit, const std::stop_token& stop)
      : file_(file),
        limit_(limit),
        stop_(stop),
        context_(ZSTD_createDCtx(), ZSTD_freeDCtx),
        out_(kRoomBytes) {
    if (!context_) throw Error(ErrorCode::io, "zstd: no memory", ENOMEM);
    checked(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLogMax),
            ErrorCode::io);
  }

  void take(std::span<const char> bytes) {
    ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
    for (bool is_full = false; is_full || in.pos < in.size;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      expected_ = checked(ZSTD_decompressStream(context_.get(), &out, &in), ErrorCode::corrupt);
      // After the end of the frame another call would begin a new one, and wait for its rest.
      is_full = out.pos == out.size && expected_ != 0;
      if (out.pos > limit_ - bytes_) {
        throw Error(ErrorCode::unsupported,
                    std::string(kSubject) + ": more than there is room for");
      }
      put(file_, {out_.data(), out.pos}, stop_);
      bytes_ += out.pos;
    }
  }

  std::uint64_t end() const {
    if (expected_ == 0) return bytes_;
    throw Error(ErrorCode::corrupt, std::string(kSubject) + ": ends in the middle");
  }

 private:
  const int file_;
  const std::uint64_t limit_;
  const std::stop_token stop_;
  const std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  std::vector<char> out_;
  std::uint64_t bytes_ = 0;
  std::size_t expected_ = 1;  // no stream is empty
};

}  // namespace

std::uint64_t receive_file(int pipe, int file, std::uint64_t limit, const std::stop_token& stop) {
  Decoder decoder(file, limit, stop);
  std::vector<char> room(kRoomBytes);
  for (;;) {
    if (stop.stop_requested()) throw cancelled();
    if (!wait_for(pipe, POLLIN)) continue;
    const ssize_t got = ::read(pipe, room.data(), room.size());
    if (got == 0) return decoder.end();
    if (got > 0) {
      decoder.take({room.data(), static_cast<std::size_t>(got)});
    } else if (errno != EINTR && errno != EAGAIN) {
      throw io_error(kSubject);
    }
  }
}

std::uint64_t forward_file(int pipe, UniqueFd out, std::uint64_t limit,
                           const std::stop_token& stop) {
  const UniqueFd end = std::move(out);
  unblock(end.get());
  return receive_file(pipe, end.get(), limit, stop);
}

}  // namespace kfdcp
