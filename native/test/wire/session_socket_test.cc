// The sockets of sessions, and how a session that has ended is recognised.
#include "core/wire/session_socket.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "core/wire/wire.h"
#include "test/os/child_process.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

/// The directory of this process, as if it were CRIU, without a session of an earlier test.
class SessionPlace {
 public:
  SessionPlace() {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~SessionPlace() { std::filesystem::remove_all(path_); }
  bool exists() const { return std::filesystem::exists(socket); }

  const std::string socket = session_socket(::getpid());

 private:
  const std::string path_ = session_directory(::getpid());
};

/// Connects, says something, and gives the session up for what comes of it.
LostSession ask_and_give_up() {
  try {
    const UniqueFd peer = connect_socket(session_socket(::getpid()));
    send_message(peer.get(), MessageType::stage, {}, "post-dump", {});
    expect_message(peer.get(), 100);
  } catch (const Error& error) {
    return give_up_session(::getpid(), error);
  }
  FAIL("the session answered");
  return {};
}

}  // namespace

TEST_CASE("session socket: is found below the directory of CRIU's pid") {
  CHECK(session_socket(4711) == session_directory(4711) + "/sock");
  CHECK(control_socket(4711) == session_directory(4711) + "/control.sock");
  CHECK(session_directory(4711) != session_directory(471));
}

TEST_CASE(
    "session socket: who connects gets an answer; a taken, a missing and a long path are refused") {
  const Folder folder;
  const std::string path = folder.path() + "/sock";
  const UniqueFd listener = listen_socket(path);
  const UniqueFd peer = connect_socket(path);
  send_message(peer.get(), MessageType::stage, {}, "hello", {});
  const UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
  CHECK(expect_message(accepted.get(), 5000).text == "hello");

  CHECK(code_of([&] { listen_socket(path); }) == ErrorCode::io);
  CHECK(code_of([&] { connect_socket(folder.path() + "/other"); }) == ErrorCode::io);
  for (const std::size_t size : {107u, 500u}) {
    const std::string longest(size + 1, '/');
    CHECK(code_of([&] { connect_socket(longest); }) == ErrorCode::io);
    CHECK(code_of([&] { listen_socket(longest); }) == ErrorCode::io);
  }
}

TEST_CASE("session socket: one that a killed session left is taken over") {
  const Folder folder;
  const std::string path = folder.path() + "/sock";
  listen_socket(path);
  const UniqueFd listener = listen_socket(path);
  CHECK(connect_socket(path));
}

TEST_CASE("session socket: what is no socket is left alone") {
  const Folder folder;
  folder.write("sock", "text");
  CHECK(code_of([&] { listen_socket(folder.path() + "/sock"); }) == ErrorCode::io);
  CHECK(std::filesystem::exists(folder.path() + "/sock"));
}

TEST_CASE("session socket: only a dead session is removed") {
  const SessionPlace place;
  {
    const UniqueFd listener = listen_socket(place.socket);
    CHECK_FALSE(remove_dead_session(::getpid()));
    CHECK(place.exists());
  }
  CHECK(remove_dead_session(::getpid()));
  CHECK_FALSE(place.exists());
}

TEST_CASE("session socket: a silent session is not taken for a dead one") {
  const SessionPlace place;
  UniqueFd listener = listen_socket(place.socket);
  std::vector<UniqueFd> waiting;
  SUBCASE("one that has not even accepted") {}
  SUBCASE("one that takes no more connections") {
    // More than the backlog: the next one would block.
    for (int i = 0; i < 17; ++i) waiting.push_back(connect_socket(place.socket));
  }
  const Error timeout(ErrorCode::io, "wait: Connection timed out", ETIMEDOUT);
  const LostSession lost =
      waiting.empty() ? ask_and_give_up() : give_up_session(::getpid(), timeout);
  CHECK_FALSE(lost.gone);
  CHECK(lost.why.find("did not answer") != std::string::npos);
  CHECK(lost.why.find("/var/log/kfd-checkpoint") != std::string::npos);
  CHECK(place.exists());
}

TEST_CASE("session socket: a session that drops one peer continues for the others") {
  const SessionPlace place;
  const UniqueFd listener = listen_socket(place.socket);
  std::thread session([&] {
    const UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
    receive_message(peer.get());
  });
  const LostSession lost = ask_and_give_up();
  session.join();
  CHECK_FALSE(lost.gone);
  CHECK(place.exists());
}

TEST_CASE("session socket: a session that is gone is cleaned away") {
  const SessionPlace place;
  std::thread session;
  SUBCASE("before it was asked") {
    listen_socket(place.socket);
    listen_socket(control_socket(::getpid()));
    CHECK(place.exists());
  }
  SUBCASE("while it was asked, its socket last") {
    session = std::thread([listener = listen_socket(place.socket)]() mutable {
      UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
      receive_message(peer.get());
      peer = UniqueFd();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      listener = UniqueFd();
    });
  }
  const LostSession lost = ask_and_give_up();
  if (session.joinable()) session.join();
  CHECK(lost.gone);
  CHECK(lost.why.find("the session died") != std::string::npos);
  CHECK_FALSE(place.exists());
  CHECK_FALSE(std::filesystem::exists(session_directory(::getpid())));
}

}  // namespace kfdcp::test
