// The test build alone (CMake target held). A file SIDE.POINT in the folder holds whoever comes
// to that point, until the file is gone. SIDE.POINT.reached then has the pid, as that process sees
// it. In restored tasks the folder is a bind mount of the container.
#include "core/os/stage.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <string>
#include <thread>

#include "core/os/fd.h"

namespace kfdcp {

namespace {

constexpr char kFolder[] = "/run/kfd-checkpoint-stages/";
constexpr std::chrono::milliseconds kStep{10};
constexpr std::chrono::seconds kLimit{120};

void hold(const std::string& file) {
  if (::access(file.c_str(), F_OK) == -1) return;
  const std::string pid = std::to_string(::getpid());
  const std::string reached = file + ".reached";
  const UniqueFd mark(::open(reached.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!mark || ::write(mark.get(), pid.data(), pid.size()) == -1) return;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (::access(file.c_str(), F_OK) == 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kStep);
  }
}

}  // namespace

void stage(const char* side, const char* point) noexcept {
  try {
    hold(std::string(kFolder) + side + "." + point);
  } catch (const std::exception&) {
    // Without memory for a name there is nothing to wait for.
  }
}

}  // namespace kfdcp
