// CRIU's answer to the program that started it, kept back until it is true.
#pragma once

#include <sys/types.h>

#include <optional>

#include "core/os/fd.h"

namespace kfdcp {

/// The socket on which a container engine waits for CRIU's answer (`criu swrk FD`). CRIU writes one
/// packet there and ends. A held answer that is not given is lost with this process: the engine
/// then reads the end of the stream, and reports a failure. It takes one answer only; a connection
/// that is kept open for a second request is not served.
class HeldAnswer {
 public:
  /// Looks for the socket among the descriptors of this process: a connected SOCK_SEQPACKET whose
  /// other end `asker` has made. Nothing when there is none, or more than one. Throws Error{io}.
  static std::optional<HeldAnswer> find(pid_t asker);

  /// From now on what is written to the socket is kept. Throws Error{io}.
  void hold();

  /// Gives what was written since hold(). False when nobody has heard it: the asker is gone.
  bool give() noexcept;

 private:
  explicit HeldAnswer(int socket, UniqueFd original, UniqueFd written, UniqueFd kept)
      : socket_(socket),
        original_(std::move(original)),
        written_(std::move(written)),
        kept_(std::move(kept)) {}

  int socket_;  // CRIU's
  UniqueFd original_;
  UniqueFd written_;  // takes the place of socket_
  UniqueFd kept_;     // its other end
};

/// Such a socket of this process, to be looked at while CRIU uses it. No descriptor is added:
/// restored tasks inherit those of CRIU.
class AskerSocket {
 public:
  /// Nothing as with HeldAnswer::find. Throws Error{io}.
  static std::optional<AskerSocket> find(pid_t asker);

  /// Whether nobody waits for an answer there any more. False when CRIU has closed the socket.
  bool is_hung_up() const noexcept;
  int fd() const { return fd_; }

 private:
  AskerSocket(int fd, ino_t inode) : fd_(fd), inode_(inode) {}

  int fd_;
  ino_t inode_;  // the number may be that of another file later
};

/// Whether this process is a CRIU that answers over a socket. One that was started from a shell
/// says how it ended by its exit status.
bool answers_by_rpc();

}  // namespace kfdcp
