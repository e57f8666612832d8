// Threads that report results to JS.
#pragma once

#include <napi.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/os/error.h"

namespace kfdcp::addon {

/// Runs `body` in a thread of its own. Throws Error{io} when there can be none, and lets go of
/// `deliver`, with which `body` would have told what it found.
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
