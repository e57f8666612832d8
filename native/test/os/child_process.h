// Real processes for tests to look at.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <utility>

#include "core/os/fd.h"

namespace kfdcp::test {

/// Forks a child that runs `work` and then sleeps until its parent dies. Returns when it sleeps, so
/// that a parent killed right after leaves no orphan. For use inside a Child.
inline void fork_sleeper(const std::function<void()>& work = [] {}) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == -1) ::_exit(1);
  if (::fork() == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    [[maybe_unused]] const auto n = ::write(ends[1], "r", 1);
    for (;;) ::pause();
  }
  char ready = 0;
  [[maybe_unused]] const auto n = ::read(ends[0], &ready, 1);
  ::close(ends[0]);
  ::close(ends[1]);
}

/// Whatever runs the tests may have handed down /dev/null, which stands in for /dev/kfd. For use
/// inside a Child.
inline void close_inherited() {
  for (int fd = 0; fd < 1024; ++fd) {
    struct stat info {};
    if (::fstat(fd, &info) == 0 && S_ISCHR(info.st_mode)) ::close(fd);
  }
}

/// A forked child that has run `prepare` when the constructor returns, and then sleeps until this
/// object goes. Dies with the test.
class Child {
 public:
  explicit Child(const std::function<void()>& prepare = [] {}) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    UniqueFd reader(ends[0]), writer(ends[1]);
    pid_ = ::fork();
    REQUIRE(pid_ != -1);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      prepare();
      // Written, not closed: grandchildren hold the pipe as well.
      [[maybe_unused]] const auto n = ::write(writer.get(), "r", 1);
      for (;;) ::pause();
    }
    writer = UniqueFd();
    char ready = 0;
    REQUIRE(::read(reader.get(), &ready, 1) == 1);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  /// Kills and reaps.
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
};

}  // namespace kfdcp::test
