// The launcher as CRIU's action script runs it, on a host without KFD; and the daemon it starts.
// Runs as root: sessions live in /run, and the daemon gets a cgroup.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <thread>

#include "core/os/error.h"
#include "core/os/text_file.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "launcher/cgroup.h"
#include "launcher/daemon.h"
#include "test/os/child_process.h"
#include "test/os/folder.h"
// The launcher is a program, not a library: what is tested of it is compiled in here.
#include "launcher/cgroup.cc"  // NOLINT(bugprone-suspicious-include)
#include "launcher/daemon.cc"  // NOLINT(bugprone-suspicious-include)

namespace kfdcp::test {
namespace {

/// Of the daemons' cgroups.
constexpr char kName[] = "4194999";

/// What a daemon running `script` says on descriptor 3.
std::string daemon_says(const std::string& script, int timeout_ms = 10'000) {
  return launcher::start_daemon(kName, {"sh", "-c", "{ " + script + "; } >&3"}, timeout_ms);
}

/// What `program` says as the daemon.
std::string daemon_runs(const std::string& program) {
  return launcher::start_daemon(kName, {"sh", "-c", "exec " + program + " >&3"}, 10'000);
}

/// Root has CAP_SYS_RESOURCE, but not in every container.
bool may_raise_descriptors(const rlimit& now) {
  const rlimit more{now.rlim_cur, now.rlim_max + 1};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) return false;
  return ::setrlimit(RLIMIT_NOFILE, &now) == 0;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("launcher: what the daemon writes before it closes descriptor 3 is returned") {
  CHECK(daemon_says("echo ready") == "ready\n");
  CHECK(daemon_says("echo one; sleep 0.1; echo two") == "one\ntwo\n");
  CHECK(daemon_says("printf %05000d 0").size() == 5000);
}

TEST_CASE("launcher: a daemon that continues after closing descriptor 3 is not waited for") {
  const auto start = std::chrono::steady_clock::now();
  const std::string pid =
      launcher::start_daemon(kName, {"sh", "-c", "echo $$ >&3; exec 3>&-; exec sleep 30"}, 10'000);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(10));
  CHECK(::kill(std::stoi(pid), SIGKILL) == 0);
}

TEST_CASE("launcher: a daemon that dies without a word, or cannot start, is an empty answer") {
  CHECK(daemon_says("exit 3").empty());
  CHECK(daemon_says("kill -9 $$").empty());
  CHECK(launcher::start_daemon(kName, {"/nowhere/program"}, 10'000).empty());
}

TEST_CASE("launcher: a daemon that says nothing is given up with ETIMEDOUT") {
  int err = 0;
  try {
    launcher::start_daemon(kName, {"sh", "-c", "exec sleep 2"}, 50);
  } catch (const Error& error) {
    err = error.err;
  }
  CHECK(err == ETIMEDOUT);
}

TEST_CASE("launcher: nothing of the caller reaches the daemon") {
  const UniqueFd low(::open("/etc/passwd", O_RDONLY)), high(::fcntl(low.get(), F_DUPFD, 700));
  REQUIRE(::setenv("KFD_TEST_SECRET", "x", 1) == 0);
  ::signal(SIGUSR1, SIG_IGN);
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  // As in a service with LimitNOFILE=100, where the test itself may raise the limit again.
  const bool may_raise = may_raise_descriptors(files);
  const rlimit few{100, may_raise ? 100 : files.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  // Each program takes the shell's place: what it sees of itself is what the daemon was given.
  const std::string fds = daemon_runs("ls -l /proc/self/fd");
  const std::string status = daemon_runs("cat /proc/self/status");
  const std::string cgroups = daemon_runs("cat /proc/self/cgroup");
  const std::string environment = daemon_runs("env");
  const std::string session = daemon_runs("cut -d' ' -f6 /proc/self/stat");
  const std::string limits = daemon_runs("cat /proc/self/limits");
  const std::string cwd = daemon_runs("readlink /proc/self/cwd");
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::setrlimit(RLIMIT_NOFILE, &files);
  ::signal(SIGUSR1, SIG_DFL);
  ::unsetenv("KFD_TEST_SECRET");

  CHECK(lines(fds).size() == 6);  // a head line, 0 to 3, and the directory being read
  CHECK(fds.find(" 0 -> /dev/null\n") != std::string::npos);
  CHECK(fds.find("passwd") == std::string::npos);
  int own_cgroups = 0;
  for (const std::string& line : lines(cgroups)) {
    const bool is_unified = line.starts_with("0::");
    const std::string own = is_unified ? ":/kfd-checkpoint/4194999" : ":/kfd-checkpoint";
    if (line.ends_with(own)) ++own_cgroups;
    CHECK_MESSAGE((line.ends_with(own) || (!is_unified && line.ends_with(":/"))), line);
  }
  CHECK(own_cgroups > 0);
  CHECK(cwd == "/\n");
  CHECK(environment.find("KFD_TEST_SECRET") == std::string::npos);
  CHECK(environment.find("PATH=") != std::string::npos);
  CHECK(status.find("Umask:\t0077\n") != std::string::npos);
  CHECK(status.find("SigIgn:\t0000000000000000\n") != std::string::npos);
  CHECK(status.find("SigBlk:\t0000000000000000\n") != std::string::npos);
  CHECK(std::stoi(session) != ::getsid(0));
  std::istringstream open_files(limits.substr(limits.find("Max open files") + 14));
  rlim_t soft = 0, hard = 1;
  open_files >> soft >> hard;
  CHECK(soft == hard);
  const std::string most = read_text("/proc/sys/fs/nr_open").value_or("");
  CHECK(hard == (may_raise ? std::stoull(most) : files.rlim_max));
}

TEST_CASE("launcher: the cgroups of killed sessions are removed, and no other") {
  const auto mounts = launcher::cgroup_mounts();
  const auto unified = std::find_if(mounts.begin(), mounts.end(),
                                    [](const auto& mount) { return mount.is_unified; });
  if (unified == mounts.end()) {
    MESSAGE("skipped: no cgroup2 is mounted");
    return;
  }
  const std::string folder = unified->point + "/kfd-checkpoint/";
  const std::string pid = launcher::start_daemon(
      "4194997", {"sh", "-c", "echo $$ >&3; exec 3>&-; exec sleep 30"}, 10'000);
  std::filesystem::create_directory(folder + "4194998");
  CHECK(daemon_says("echo ready") == "ready\n");
  CHECK(!std::filesystem::exists(folder + "4194998"));
  CHECK(std::filesystem::exists(folder + "4194997"));
  CHECK(::kill(std::stoi(pid), SIGKILL) == 0);
}

TEST_CASE("launcher: standard output of the daemon is nobody's, its errors are kept") {
  const std::string script = "x=$(readlink /proc/$$/fd/1); echo $x >&3";
  CHECK(launcher::start_daemon(kName, {"sh", "-c", script}, 10'000) == "/dev/null\n");
  CHECK(daemon_says("readlink /proc/$$/fd/2") == "/var/log/kfd-checkpoint/session-stderr.log\n");
}

TEST_CASE("launcher: a caller without standard descriptors gets the answer all the same") {
  const pid_t pid = ::fork();
  REQUIRE(pid != -1);
  if (pid == 0) {
    for (int fd = 0; fd < 5; ++fd) ::close(fd);
    bool right = false;
    try {
      right = daemon_says("readlink /proc/$$/fd/0; readlink /proc/$$/fd/2") ==
              "/dev/null\n/var/log/kfd-checkpoint/session-stderr.log\n";
    } catch (const std::exception&) {
    }
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(status == 0);
}

#ifndef __SANITIZE_ADDRESS__  // that build makes no launcher

namespace {

struct Result {
  int status;
  std::string errors;
};

/// Runs the launcher for a stage of the CRIU process `criu_pid`, whose image directory `images` is.
Result launch(const std::string& stage, int criu_pid, int image_fd, const std::string& more = "") {
  const std::string program =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kfd-checkpoint-launch";
  const std::string command = "CRTOOLS_SCRIPT_ACTION=" + stage + " CRTOOLS_IMAGE_DIR=/proc/" +
                              std::to_string(criu_pid) + "/fd/" + std::to_string(image_fd) + " " +
                              more + " '" + program + "' /nowhere 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  Result result{-1, {}};
  char buffer[512];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) result.errors += buffer;
  const int status = ::pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// This test plays CRIU: its pid names the session, its descriptor the image directory.
class Criu {
 public:
  Criu() : image_fd_(::open(images_.path().c_str(), O_RDONLY | O_DIRECTORY)) {
    REQUIRE(image_fd_);
    std::filesystem::remove_all(session());
  }
  ~Criu() { std::filesystem::remove_all(session()); }

  std::string session() const { return session_directory(::getpid()); }
  const Folder& images() const { return images_; }
  Result run(const std::string& stage) const { return launch(stage, ::getpid(), image_fd_.get()); }

 private:
  Folder images_;
  UniqueFd image_fd_;
};

// Exit statuses, as the action script knows them.
constexpr int kGoOn = 10;
constexpr int kStop = 11;
constexpr int kNotAsked = 1;

}  // namespace

TEST_CASE("launcher: a dump or restore whose session cannot be started stops CRIU with a reason") {
  const Criu criu;
  for (const char* stage : {"pre-dump", "pre-restore"}) {
    const Result result = criu.run(stage);
    CHECK(result.status == kStop);
    CHECK(result.errors.starts_with("Error (kfd-checkpoint): the session could not be started"));
  }
}

TEST_CASE("launcher: a session that stopped answering stops CRIU with a reason") {
  const Criu criu;
  for (const char* stage : {"post-dump", "post-restore", "post-resume"}) {
    std::filesystem::create_directories(criu.session());
    std::ofstream(criu.session() + "/sock") << "";
    const Result result = criu.run(stage);
    CHECK(result.status == kStop);
    CHECK(result.errors.starts_with("Error (kfd-checkpoint): "));
  }
}

TEST_CASE("launcher: a session that is gone stops CRIU with a reason") {
  const Criu criu;
  for (const char* stage : {"post-dump", "post-restore", "post-resume"}) {
    const Result result = criu.run(stage);
    CHECK(result.status == kStop);
    CHECK(result.errors.starts_with("Error (kfd-checkpoint): the session died: "));
  }
}

TEST_CASE("launcher: the session's word decides, and its reason is shown") {
  const Criu criu;
  std::filesystem::create_directories(criu.session());
  const UniqueFd listener = listen_socket(session_socket(::getpid()));
  std::vector<std::string> received;
  std::thread session([&] {
    for (const MessageType answer : {MessageType::ok, MessageType::error}) {
      const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
      const Message question = expect_message(peer.get(), 10'000);
      if (question.type == MessageType::stage) received.push_back(question.text);
      send_message(peer.get(), answer, {}, "because", {});
    }
  });
  CHECK(criu.run("post-dump").status == kGoOn);
  const Result refused = criu.run("post-restore");
  session.join();
  CHECK(refused.status == kStop);
  CHECK(refused.errors == "Error (kfd-checkpoint): because\n");
  CHECK(received == std::vector<std::string>{"post-dump", "post-restore"});
}

TEST_CASE("launcher: an environment that is not CRIU's is no word") {
  std::filesystem::create_directories(session_directory(-1));
  std::ofstream(session_socket(-1)) << "";
  for (const char* stage : {"pre-dump", "post-dump", "pre-restore", "post-restore"}) {
    CHECK(launch(stage, 0, 0, "CRTOOLS_IMAGE_DIR=").status == kNotAsked);
    CHECK(launch(stage, 0, 0, "CRTOOLS_IMAGE_DIR=/proc/self/fd/3").status == kNotAsked);
  }
  CHECK(std::filesystem::exists(session_socket(-1)));
  std::filesystem::remove_all(session_directory(-1));
}

#endif

}  // namespace kfdcp::test
