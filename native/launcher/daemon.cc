#include "launcher/daemon.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/text_file.h"
#include "launcher/cgroup.h"

namespace kfdcp::launcher {

namespace {

constexpr char kCrashLog[] = "/var/log/kfd-checkpoint/session-stderr.log";
constexpr char kPath[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The caller may have closed 0 to 2, and a new descriptor may have taken a place that is given
/// away below.
int out_of_the_way(int fd) { return ::fcntl(fd, F_DUPFD, 4); }

/// The session has a descriptor for each buffer, and its transfer jobs one more. Services often
/// start with a hard limit of some thousands, which root may raise as far as the kernel goes.
void allow_descriptors() {
  const std::string text = read_text("/proc/sys/fs/nr_open").value_or("");
  std::string_view rest = text;
  const rlim_t most = take_integer<rlim_t>(rest).value_or(0);
  if (const rlimit all{most, most}; most > 0 && ::setrlimit(RLIMIT_NOFILE, &all) == 0) return;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void become(const std::vector<std::string>& command, int ready_pipe) {
  const int ready = out_of_the_way(ready_pipe);
  const int null = out_of_the_way(::open("/dev/null", O_RDWR));
  ::mkdir("/var/log/kfd-checkpoint", 0700);
  const int log = out_of_the_way(::open(kCrashLog, O_WRONLY | O_CREAT | O_APPEND, 0600));
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::dup2(log >= 0 ? log : null, 2);
  ::dup2(ready, 3);
  ::syscall(SYS_close_range, 4, ~0u, 0);

  allow_descriptors();
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  ::umask(077);
  if (::chdir("/") == -1) ::_exit(127);

  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  // The container engine's PATH may find node when ours does not. Its other variables are ignored.
  const char* path = std::getenv("PATH");
  const std::string own_path = path == nullptr ? kPath : std::string("PATH=") + path;
  char* const environment[] = {const_cast<char*>(own_path.c_str()), nullptr};
  ::execvpe(argv[0], argv.data(), environment);
  ::_exit(127);
}

}  // namespace

std::string start_daemon(const std::string& name, const std::vector<std::string>& command,
                         int timeout_ms) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) == -1) throw io_error("pipe");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);

  const pid_t child = ::fork();
  if (child == -1) throw io_error("fork");
  if (child == 0) {
    leave_cgroup(name);
    ::setsid();
    if (::fork() == 0) become(command, writer.get());
    ::_exit(0);
  }
  writer = UniqueFd();
  int status = 0;
  while (::waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  return session_says(reader.get(), timeout_ms);
}

std::string session_says(int reader, int timeout_ms) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::milliseconds(timeout_ms);
  std::string text;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd poller{reader, POLLIN, 0};
    const int ready = ::poll(&poller, 1, left < 0 ? 0 : static_cast<int>(left));
    if (ready == -1 && errno == EINTR) continue;
    if (ready == 0) errno = ETIMEDOUT;
    if (ready <= 0) throw io_error("session: wait until it is ready");
    char buffer[4096];
    const ssize_t n = ::read(reader, buffer, sizeof buffer);
    if (n == -1 && errno == EINTR) continue;
    if (n <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace kfdcp::launcher
