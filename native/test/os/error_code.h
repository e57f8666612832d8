// The code of a call's error.
#pragma once

#include <optional>
#include <utility>

#include "core/os/error.h"

namespace kfdcp::test {

/// The code of the Error that `work` throws; none when it does not throw.
template <class Work>
[[nodiscard]] std::optional<ErrorCode> code_of(Work&& work) {
  try {
    std::forward<Work>(work)();
  } catch (const Error& error) {
    return error.code;
  }
  return std::nullopt;
}

}  // namespace kfdcp::test
