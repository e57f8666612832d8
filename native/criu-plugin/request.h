// Questions of a restored task to its session.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/wire/wire.h"

namespace kfdcp::criu {

/// Sends one message and waits for the answer. Throws Error{protocol} with the session's reason
/// when it refuses, Error{io} when it is gone or silent.
Message request(int socket, MessageType type, const std::array<std::uint64_t, 4>& args,
                const std::vector<int>& fds = {});

}  // namespace kfdcp::criu
