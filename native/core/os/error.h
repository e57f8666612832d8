// The one exception type of the native code.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace kfdcp {

/// What kind of thing went wrong; each face (addon, plugin, launcher) maps these to its own codes.
enum class ErrorCode {
  io,           // a system call failed; `err` is its errno
  corrupt,      // bytes that were read do not match their checksum or their format
  unsupported,  // well-formed, but this version or this host cannot do it
  protocol,     // the peer on a socket broke the contract
  gpu,          // a KFD, DRM or libdrm call failed
  engine,       // a copy engine cannot be set up; another one may work
  cancelled,    // asked to stop
};

/// Thrown by native/core. `what()` reads "<subject>: <reason>", lower case, no full stop.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, int err = 0)
      : std::runtime_error(message), code(code), err(err) {}
  const ErrorCode code;
  const int err;  // errno, or 0
};

/// An Error{io} that appends strerror(errno): "<subject>: <strerror>".
Error io_error(const std::string& subject);

/// What an operator reads of `error`. Anything but an Error is a fault of this program, and its
/// text means little by itself: "internal error: map::at".
std::string describe(const std::exception& error);
bool is_internal(const std::exception& error);

/// The stable name of a code, as it appears in logs and JS errors: "KFD_IO", "KFD_CORRUPT", ...
const char* error_name(ErrorCode code);

}  // namespace kfdcp
