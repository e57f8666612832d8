#include "core/os/error.h"

#include <cerrno>
#include <cstring>

namespace kfdcp {

Error io_error(const std::string& subject) {
  const int err = errno;
  return Error(ErrorCode::io, subject + ": " + std::strerror(err), err);
}

bool is_internal(const std::exception& error) {
  return dynamic_cast<const Error*>(&error) == nullptr;
}

std::string describe(const std::exception& error) {
  return (is_internal(error) ? "internal error: " : "") + std::string(error.what());
}

const char* error_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::io:
      return "KFD_IO";
    case ErrorCode::corrupt:
      return "KFD_CORRUPT";
    case ErrorCode::unsupported:
      return "KFD_UNSUPPORTED";
    case ErrorCode::protocol:
      return "KFD_PROTOCOL";
    case ErrorCode::gpu:
      return "KFD_GPU";
    case ErrorCode::engine:
      return "KFD_ENGINE";
    case ErrorCode::cancelled:
      return "KFD_CANCELLED";
  }
  return "KFD_UNKNOWN";
}

}  // namespace kfdcp
