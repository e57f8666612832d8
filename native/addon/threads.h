// Threads that report results to JS.
#pragma once

#include <napi.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/os/error.h"

namespace kfdcp::addon {

/// Runs `body` in a thread of its own. Throws Error{io} when no thread can be made, and releases
/// `deliver`, with which `body` would have reported its result.
template <class Body>
std::thread start_thread(Napi::ThreadSafeFunction deliver, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    deliver.Release();
    throw Error(ErrorCode::io, std::string("thread: ") + error.what(), error.code().value());
  }
}

}  // namespace kfdcp::addon
