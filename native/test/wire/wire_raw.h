// Packets that no sender of this project makes.
#pragma once

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp::test {

/// Both ends of a session's socket.
struct Pair {
  UniqueFd a, b;
};

inline Pair packet_pair() {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The header of a packet, written down a second time: the format is a contract.
struct RawHeader {
  std::uint32_t magic = 0x4344464b;
  std::uint32_t type = 1;
  std::uint64_t args[4] = {};
  std::uint32_t text_bytes = 0;
  std::uint32_t fds = 0;
};

struct RawPacket {
  RawHeader header;
  std::string text;
  std::size_t cut = ~std::size_t{0};  // only so many bytes are sent

  std::string bytes() const {
    std::string all(reinterpret_cast<const char*>(&header), sizeof header);
    all += text;
    return all.substr(0, cut);
  }
};

inline void send_raw(int socket, const std::string& bytes, const std::vector<int>& fds) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(sizeof(int) * fds.size()));
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(c), fds.data(), sizeof(int) * fds.size());
  }
  REQUIRE(::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
}

inline bool nothing_to_read(int socket) {
  pollfd poller{socket, POLLIN, 0};
  return ::poll(&poller, 1, 0) == 0;
}

}  // namespace kfdcp::test
