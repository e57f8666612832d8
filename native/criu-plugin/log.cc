#include "criu-plugin/log.h"

#include <dlfcn.h>

#include <cstdio>

namespace kfdcp::criu {

namespace {

// CRIU's levels: 1 error, 3 info (criu/include/criu-log.h).
void print(unsigned level, const char* format, const std::string& text) {
  using Print = void (*)(unsigned, const char*, ...);
  static const auto out = reinterpret_cast<Print>(::dlsym(RTLD_DEFAULT, "print_on_level"));
  if (out != nullptr) {
    out(level, format, text.c_str());
  } else {
    std::fprintf(stderr, format, text.c_str());
  }
}

}  // namespace

void log_info(const std::string& text) { print(3, "kfd-checkpoint: %s\n", text); }
void log_error(const std::string& text) { print(1, "Error (kfd-checkpoint): %s\n", text); }

}  // namespace kfdcp::criu
