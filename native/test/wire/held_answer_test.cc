// CRIU's answer to a container engine, kept back. This process plays the engine, a child CRIU.
#include "core/wire/held_answer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <utility>

#include "test/os/child_process.h"

namespace kfdcp::test {
namespace {

struct Pair {
  explicit Pair(int type = SOCK_SEQPACKET) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, type, 0, ends) == 0);
    engine = UniqueFd(ends[0]);
    criu = UniqueFd(ends[1]);
  }
  UniqueFd engine;
  UniqueFd criu;
};

/// What the engine reads within `ms`; "nothing", or "the end".
std::string heard(const Pair& pair, int ms) {
  pollfd poller{pair.engine.get(), POLLIN, 0};
  if (::poll(&poller, 1, ms) == 0) return "nothing";
  char packet[64];
  const ssize_t size = ::recv(pair.engine.get(), packet, sizeof packet, 0);
  return size <= 0 ? "the end" : std::string(packet, static_cast<std::size_t>(size));
}

/// Sockets that other tests have left open: CRIU has none of its engine's but one.
void close_sockets_but(int kept, int other = -1) {
  for (int fd = 3; fd < 1024; ++fd) {
    struct stat info {};
    if (fd != kept && fd != other && ::fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode)) ::close(fd);
  }
}

void say(int socket, const std::string& text) {
  if (::write(socket, text.data(), text.size()) == -1) ::_exit(1);
}

/// A child that holds its answer, gives two, and goes on with `then`.
Child criu_of(Pair& pair, const std::function<void(HeldAnswer&)>& then) {
  return Child([&pair, then] {
    close_sockets_but(pair.criu.get());
    // As CRIU keeps one for notifications.
    const UniqueFd copy(::fcntl(pair.criu.get(), F_DUPFD, 900));
    auto found = HeldAnswer::find(::getppid());
    if (!found) ::_exit(1);
    auto* answer = new HeldAnswer(std::move(*found));  // lives as long as the child
    answer->hold();
    say(pair.criu.get(), "first");
    say(pair.criu.get(), "second");
    then(*answer);
  });
}

}  // namespace

TEST_CASE("held answer: reaches the engine when it is given, whole and in order") {
  Pair pair;
  Child criu = criu_of(pair, [](HeldAnswer& answer) { answer.give(); });
  pair.criu = UniqueFd();
  CHECK(heard(pair, 5000) == "first");
  CHECK(heard(pair, 5000) == "second");
  criu.end();
  CHECK(heard(pair, 5000) == "the end");
}

TEST_CASE("held answer: one that is not given is never heard of") {
  Pair pair;
  Child criu = criu_of(pair, [](HeldAnswer&) {});
  pair.criu = UniqueFd();
  CHECK(heard(pair, 50) == "nothing");
  criu.end();
  CHECK(heard(pair, 5000) == "the end");
}

TEST_CASE("held answer: says that nobody has heard it") {
  const auto was_heard = [](bool gone) {
    Pair pair;
    int go[2], result[2];
    REQUIRE(::pipe2(go, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(result, O_CLOEXEC) == 0);
    const UniqueFd waits(go[0]), starts(go[1]), reader(result[0]), writer(result[1]);
    Child criu = criu_of(pair, [&](HeldAnswer& answer) {
      // The constructor of Child waits for this function. Its own child goes on.
      if (::fork() != 0) return;
      char word = 0;
      if (::read(waits.get(), &word, 1) != 1) ::_exit(1);
      word = answer.give() ? 'y' : 'n';
      [[maybe_unused]] const auto n = ::write(writer.get(), &word, 1);
      ::_exit(0);
    });
    if (gone) pair.engine = UniqueFd();
    char word = 'g';
    REQUIRE(::write(starts.get(), &word, 1) == 1);
    REQUIRE(::read(reader.get(), &word, 1) == 1);
    return word == 'y';
  };
  CHECK(was_heard(false));
  CHECK_FALSE(was_heard(true));
}

TEST_CASE("asker: its socket hangs up when it ends, and no file with the same number does") {
  const auto looks = [](bool gone, bool replaced) {
    Pair pair;
    int go[2], result[2];
    REQUIRE(::pipe2(go, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(result, O_CLOEXEC) == 0);
    const UniqueFd waits(go[0]), starts(go[1]), reader(result[0]), writer(result[1]);
    const Child criu([&] {
      close_sockets_but(pair.criu.get());
      const auto socket = AskerSocket::find(::getppid());
      if (!socket) ::_exit(1);
      if (replaced) {
        int ends[2];
        if (::pipe(ends) == -1 || ::dup2(ends[0], socket->fd()) == -1) ::_exit(1);
        ::close(ends[1]);  // such a pipe hangs up, too
      }
      if (::fork() != 0) return;
      char word = 0;
      if (::read(waits.get(), &word, 1) != 1) ::_exit(1);
      word = socket->is_hung_up() ? 'y' : 'n';
      [[maybe_unused]] const auto n = ::write(writer.get(), &word, 1);
      ::_exit(0);
    });
    if (gone) pair.engine = UniqueFd();
    char word = 'g';
    REQUIRE(::write(starts.get(), &word, 1) == 1);
    REQUIRE(::read(reader.get(), &word, 1) == 1);
    return word == 'y';
  };
  CHECK(looks(true, false));
  CHECK_FALSE(looks(false, false));
  CHECK_FALSE(looks(true, true));
}

TEST_CASE("held answer: no other socket is taken for the engine's") {
  const auto found = [](int type, bool second) {
    const Pair pair(type);
    const Pair other(second ? SOCK_SEQPACKET : SOCK_STREAM);
    int result[2];
    REQUIRE(::pipe2(result, O_CLOEXEC) == 0);
    const UniqueFd reader(result[0]), writer(result[1]);
    const Child child([&] {
      const int other_end = second ? other.criu.get() : -1;
      close_sockets_but(pair.criu.get(), other_end);
      const char is = HeldAnswer::find(::getppid()) ? 'y' : 'n';
      [[maybe_unused]] const auto n = ::write(writer.get(), &is, 1);
    });
    char is = 0;
    REQUIRE(::read(reader.get(), &is, 1) == 1);
    return is == 'y';
  };
  CHECK(found(SOCK_SEQPACKET, false));
  CHECK_FALSE(found(SOCK_STREAM, false));
  CHECK_FALSE(found(SOCK_DGRAM, false));
  CHECK_FALSE(found(SOCK_SEQPACKET, true));  // which one?
  CHECK_FALSE(HeldAnswer::find(1));
}

}  // namespace kfdcp::test
