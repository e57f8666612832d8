#include "core/wire/wire.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::uint32_t kMagic = 0x4344464b;  // "KFDC"

struct Header {
  std::uint32_t magic;
  std::uint32_t type;
  std::uint64_t args[4];
  std::uint32_t text_bytes;
  std::uint32_t fds;
};
static_assert(sizeof(Header) == 48);

bool known(std::uint32_t type) {
  return (type >= 1 && type <= 3) || type == 10 || (type >= 20 && type <= 29) ||
         (type >= 30 && type <= 42) || type == 50 || type == 51;
}

/// Takes every descriptor out of the control messages, so that none leaks whatever follows.
std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  fds.reserve(kMaxFds);  // the control buffer has room for no more; a failure here loses none
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

void send_message(int socket, MessageType type, const std::array<std::uint64_t, 4>& args,
                  const std::string& text, const std::vector<int>& fds) {
  if (fds.size() > kMaxFds) throw Error(ErrorCode::protocol, "message: too many descriptors");
  Header header{};
  header.magic = kMagic;
  header.type = static_cast<std::uint32_t>(type);
  std::copy(args.begin(), args.end(), header.args);
  header.text_bytes = static_cast<std::uint32_t>(std::min(text.size(), kMaxText));
  header.fds = static_cast<std::uint32_t>(fds.size());

  iovec parts[2] = {{&header, sizeof header}, {const_cast<char*>(text.data()), header.text_bytes}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  ssize_t sent;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent == -1 && errno == EINTR);
  if (sent == -1) throw io_error("session socket: send");
}

void send_failure(int socket, MessageType type, std::uint64_t ordinal,
                  const std::exception& error) noexcept {
  try {
    send_message(socket, type, {ordinal, is_internal(error) ? 1u : 0u}, describe(error), {});
  } catch (const std::exception&) {
    // CRIU's log has the reason. The session notices the end of this dump or restore.
  }
}

std::optional<Message> receive_message(int socket) {
  Header header{};
  std::string text(kMaxText, '\0');
  iovec parts[2] = {{&header, sizeof header}, {text.data(), text.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxFds)];
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got == -1 && errno == EINTR);
  if (got == -1) throw io_error("session socket: receive");
  std::vector<UniqueFd> fds = take_fds(message);
  // An empty packet looks like the end of the stream, unless descriptors came with it.
  if (got == 0 && fds.empty() && (message.msg_flags & MSG_CTRUNC) == 0) return std::nullopt;

  const auto bytes = static_cast<std::size_t>(got);
  const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
                     bytes >= sizeof header && header.magic == kMagic && known(header.type) &&
                     bytes == sizeof header + header.text_bytes && fds.size() == header.fds;
  if (!whole) throw Error(ErrorCode::protocol, "session socket: malformed message");

  Message result;
  result.type = static_cast<MessageType>(header.type);
  std::copy(std::begin(header.args), std::end(header.args), result.args.begin());
  text.resize(header.text_bytes);
  result.text = std::move(text);
  result.fds = std::move(fds);
  return result;
}

Message expect_message(int socket, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  pollfd poller{socket, POLLIN, 0};
  int ready;
  do {  // signals must not push the deadline away
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    ready = ::poll(&poller, 1, left < 0 ? 0 : static_cast<int>(left));
  } while (ready == -1 && errno == EINTR);
  if (ready == 0) errno = ETIMEDOUT;
  if (ready <= 0) throw io_error("session socket: wait for an answer");
  std::optional<Message> message = receive_message(socket);
  if (!message) throw Error(ErrorCode::io, "session socket: the session ended", EPIPE);
  return std::move(*message);
}

Message expect_answer(int socket, int silence_ms) {
  for (;;) {
    Message message = expect_message(socket, silence_ms);
    if (message.type != MessageType::working) return message;
  }
}

void send_buffers(int socket, MessageType type, std::uint32_t ordinal,
                  const std::vector<std::pair<std::uint32_t, UniqueFd>>& dmabufs) {
  for (std::size_t first = 0; first < dmabufs.size(); first += kMaxFds) {
    const std::size_t last = std::min(first + kMaxFds, dmabufs.size());
    std::string body;
    std::vector<int> fds;
    for (std::size_t i = first; i < last; ++i) {
      const std::uint32_t index = dmabufs[i].first;
      body.append(reinterpret_cast<const char*>(&index), sizeof index);
      fds.push_back(dmabufs[i].second.get());
    }
    send_message(socket, type, {ordinal}, body, fds);
  }
}

UniqueFd make_memfd(const char* name, const void* bytes, std::size_t size) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw io_error("memfd_create");
  const char* from = static_cast<const char*>(bytes);
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::pwrite(fd.get(), from + done, size - done, static_cast<off_t>(done));
    if (n == -1 && errno == EINTR) continue;
    if (n <= 0) throw io_error("memfd: write");
    done += static_cast<std::size_t>(n);
  }
  constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (::fcntl(fd.get(), F_ADD_SEALS, seals) == -1) throw io_error("memfd: seal");
  return fd;
}

std::vector<std::byte> read_memfd(int fd, std::size_t limit) {
  struct stat info {};
  if (::fstat(fd, &info) == -1) throw io_error("memfd: stat");
  if (!S_ISREG(info.st_mode) || info.st_size < 0 ||
      static_cast<std::uint64_t>(info.st_size) > limit) {
    throw Error(ErrorCode::protocol, "memfd: not a file of an acceptable size");
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n == -1 && errno == EINTR) continue;
    if (n == 0) throw Error(ErrorCode::protocol, "memfd: shrank while it was read");
    if (n == -1) throw io_error("memfd: read");
    done += static_cast<std::size_t>(n);
  }
  return bytes;
}

}  // namespace kfdcp
