// Fixed-size messages on a stream socket, with or without a descriptor beside them.
#pragma once

#include <cstddef>

#include "core/os/fd.h"

namespace lab {

/// Sends `size` bytes, and a copy of `fd` unless it is -1. False when the other side is gone.
bool send_passing(int socket, const void* bytes, std::size_t size, int fd);

/// Receives `size` bytes; `passed` is what came beside them, if anything did. False at the end of
/// the conversation.
bool receive_passed(int socket, void* bytes, std::size_t size, kfdcp::UniqueFd& passed);

}  // namespace lab
