// Numbers from the environment of a run.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace kfdcp::test {

/// The value of the variable, decimal or 0x...; `otherwise` where there is none.
inline std::uint64_t number_from_env(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

}  // namespace kfdcp::test
