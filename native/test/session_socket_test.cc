// Where sessions listen, and how they are told from those that are gone.
#include "core/session_socket.h"

#include <sys/socket.h>

#include "child_process.h"
#include "core/wire.h"
#include "folder.h"
#include "transfer_fakes.h"

namespace kfdcp::test {

TEST_CASE("session socket: is found below the directory of CRIU's pid") {
  CHECK(session_socket(4711) == session_directory(4711) + "/sock");
  CHECK(session_directory(4711) != session_directory(471));
}

TEST_CASE("session socket: who connects is heard; a taken, a missing and a long path are refused") {
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

}  // namespace kfdcp::test
