// A launcher gives its work to a spare session, which is played here. Runs as root: the socket is
// the host's, and a session is moved into a cgroup.
#include "launcher/spare.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "core/os/text_file.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
// As launcher_test.cc does, which has the other files of the launcher.
#include "launcher/spare.cc"  // NOLINT(bugprone-suspicious-include)

namespace kfdcp::test {
namespace {

/// Of the sessions' cgroups.
constexpr char kName[] = "4194999";

}  // namespace

namespace {

constexpr char kSpare[] = "/run/kfd-checkpoint/spare.sock";

/// The socket is the host's, and these tests run in several programs at once (test/unit/spare.test
/// too): they have their turns.
class SpareTurn {
 public:
  SpareTurn() : file_(::open("/run/kfd-checkpoint-spare-test.lock", O_RDWR | O_CREAT, 0600)) {
    REQUIRE(file_);
    REQUIRE(::flock(file_.get(), LOCK_EX) == 0);
    std::filesystem::create_directories("/run/kfd-checkpoint");
    std::filesystem::remove(kSpare);
  }
  ~SpareTurn() { std::filesystem::remove(kSpare); }

 private:
  UniqueFd file_;
};

/// A process that plays a spare session with one launcher: the launcher moves whoever listens. What
/// use_spare() returned; `play` returns whether all was as it should be.
std::optional<std::string> with_spare(bool (*play)(int peer)) {
  const SpareTurn turn;
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd listens(ends[0]);
  UniqueFd tell(ends[1]);
  const pid_t spare = ::fork();
  REQUIRE(spare != -1);
  if (spare == 0) {
    ::alarm(60);  // nobody may come
    bool right = false;
    try {
      const UniqueFd listener = listen_socket(kSpare);
      tell = UniqueFd();
      const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
      right = play(peer.get());
    } catch (const std::exception&) {
    }
    ::_exit(right ? 0 : 1);
  }
  tell = UniqueFd();
  char nothing;
  CHECK(::read(listens.get(), &nothing, 1) == 0);
  const launcher::Work work{"restore", 4194996, "/proc/4194996/fd/7"};
  const auto said = launcher::use_spare("/proc/self/exe", work, kName, 10'000);
  int status = -1;
  REQUIRE(::waitpid(spare, &status, 0) == spare);
  CHECK(status == 0);
  return said;
}

/// What the launcher and a session of this very program agree on.
bool agrees(const std::string& text) {
  struct stat info {};
  if (::stat("/proc/self/exe", &info) != 0) return false;
  std::ostringstream own;
  own << info.st_ino << ' ' << info.st_ctim.tv_sec << ' ' << info.st_ctim.tv_nsec << ' '
      << std::filesystem::read_symlink("/proc/self/ns/mnt").string() << ' '
      << std::filesystem::read_symlink("/proc/self/ns/pid").string();
  return text == own.str();
}

bool wanted(int peer) {
  const Message message = expect_message(peer, 10'000);
  return message.type == MessageType::spare_wanted && agrees(message.text);
}

bool in_own_cgroup() {
  const std::string cgroups = read_text("/proc/self/cgroup").value_or("");
  return cgroups.find("/kfd-checkpoint") != std::string::npos;
}

bool takes_work(int peer) {
  if (!wanted(peer) || in_own_cgroup()) return false;
  send_message(peer, MessageType::ok, {}, "", {});
  const Message begin = expect_message(peer, 10'000);
  if (begin.type != MessageType::spare_begin || begin.fds.size() != 1) return false;
  if (begin.args[0] != 1 || begin.args[1] != 4194996 || begin.text != "/proc/4194996/fd/7") {
    return false;
  }
  return in_own_cgroup() && ::write(begin.fds[0].get(), "ready\n", 6) == 6;
}

}  // namespace

TEST_CASE("launcher: a spare session gets the work in its own cgroup, and what it says is told") {
  CHECK(with_spare(takes_work) == "ready\n");
}

TEST_CASE("launcher: a spare session that has the work and dies is an empty answer") {
  CHECK(with_spare([](int peer) {
          if (!wanted(peer)) return false;
          send_message(peer, MessageType::ok, {}, "", {});
          return expect_message(peer, 10'000).type == MessageType::spare_begin;
        }) == "");
}

TEST_CASE("launcher: a spare session that refuses, goes or is silent gets no work") {
  CHECK(!with_spare([](int peer) {
    const bool right = wanted(peer);
    send_message(peer, MessageType::error, {}, "has work", {});
    return right && !receive_message(peer);
  }));
  CHECK(!with_spare([](int) { return true; }));
  CHECK(!with_spare([](int peer) { return wanted(peer) && !receive_message(peer); }));
}

TEST_CASE("launcher: without a spare session, or without the program, there is none") {
  const SpareTurn turn;
  const launcher::Work work{"dump", 4194996, "/proc/4194996/fd/7"};
  CHECK(!launcher::use_spare("/proc/self/exe", work, kName, 10'000));
  CHECK(!launcher::use_spare("/nowhere/program", work, kName, 10'000));
}

}  // namespace kfdcp::test
