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

  /// Gives what was written since hold(). False when the asker is gone: nobody has heard it.
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

/// The descriptor of such a socket in this process, CRIU's own; nothing as with HeldAnswer::find.
std::optional<int> asker_socket(pid_t asker);

/// Whether nobody waits for an answer on the socket any more.
bool asker_is_gone(int socket) noexcept;

/// Whether this process is a CRIU that answers over a socket. One that was started from a shell
/// says how it ended by its exit status.
bool answers_by_rpc();

}  // namespace kfdcp
