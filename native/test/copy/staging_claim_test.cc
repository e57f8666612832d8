#include "core/copy/staging_claim.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/os/error.h"
#include "test/os/child_process.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"

using namespace kfdcp;
using namespace kfdcp::test;

namespace {

constexpr std::uint32_t kTotal = 16;

struct Host {
  Folder folder;
  std::string path = folder.path() + "/staging";

  std::unique_ptr<StagingClaim> claim(std::uint32_t session, std::uint32_t wanted,
                                      std::uint32_t transfers = 1) const {
    return std::make_unique<StagingClaim>(
        path, StagingClaim::Request{kTotal, wanted, transfers, session});
  }
};

}  // namespace

TEST_CASE("staging: a session alone gets all it wants, and not more than there is") {
  const Host host;
  {
    const auto one = host.claim(1, 8);
    CHECK(one->poll() == 8);
    CHECK(one->poll() == 8);
  }
  const auto greedy = host.claim(1, 100);
  CHECK(greedy->poll() == kTotal);
  struct stat st {};
  REQUIRE(::stat(host.path.c_str(), &st) == 0);
  CHECK(st.st_size == 0);
  CHECK((st.st_mode & 0777) == 0600);
}

TEST_CASE("staging: several sessions get shares, whatever the number of their transfers") {
  const Host host;
  const auto first = host.claim(1, 8);
  CHECK(first->poll() == 8);
  const auto second = host.claim(2, 16);
  CHECK(second->poll() == 8);  // half of the whole
  auto third = host.claim(3, 16);
  CHECK(third->poll() == 0);
  auto freed = host.claim(1, 16, 4);
  CHECK(freed->poll() == 0);  // behind it
}

TEST_CASE("staging: the transfers of one session share its part") {
  const Host host;
  std::vector<std::unique_ptr<StagingClaim>> claims;
  for (int gpu = 0; gpu < 4; ++gpu) {
    claims.push_back(host.claim(1, 16, 4));
    CHECK(claims.back()->poll() == 4);
  }
}

TEST_CASE("staging: those who wait are served in their order, each with a piece at least") {
  const Host host;
  auto holder = host.claim(1, 16);
  REQUIRE(holder->poll() == 16);
  const auto second = host.claim(2, 16);
  const auto third = host.claim(3, 16);
  CHECK(second->poll() == 0);
  CHECK(third->poll() == 0);
  holder.reset();
  // The first claim is repeated: it queues after the waiting claims.
  const auto again = host.claim(1, 16);
  CHECK(again->poll() == 0);
  CHECK(third->poll() == 0);
  CHECK(second->poll() == 5);
  CHECK(third->poll() == 5);
  CHECK(again->poll() == 5);
  // More sessions than pieces: a piece each, as long as there are some.
  const auto fourth = host.claim(4, 16);
  const auto fifth = host.claim(5, 16);
  CHECK(fourth->poll() == 1);
  CHECK(fifth->poll() == 0);
}

TEST_CASE("staging: one that gave up is waited for no longer") {
  const Host host;
  auto holder = host.claim(1, 16);
  REQUIRE(holder->poll() == 16);
  auto second = host.claim(2, 16);
  const auto third = host.claim(3, 16);
  CHECK(second->poll() == 0);
  CHECK(third->poll() == 0);
  second.reset();
  holder.reset();
  CHECK(third->poll() == 16);
}

TEST_CASE("staging: what a killed process held, or waited for, is free") {
  const Host host;
  std::unique_ptr<StagingClaim> in_child;
  const auto claims = [&] {
    in_child = host.claim(77, 16);
    if (in_child->poll() != 16) ::_exit(1);
  };
  auto holder = std::make_unique<Child>(claims);
  const auto waits = [&] {
    in_child = host.claim(78, 16);
    if (in_child->poll() != 0) ::_exit(1);
  };
  auto waiter = std::make_unique<Child>(waits);
  const auto mine = host.claim(1, 8);
  CHECK(mine->poll() == 0);
  holder.reset();
  CHECK(mine->poll() == 0);  // the other one was there before
  waiter.reset();
  CHECK(mine->poll() == 8);
}

TEST_CASE("staging: a process that is killed while it looks keeps nobody else from it") {
  const Host host;
  for (int round = 0; round < 20; ++round) {
    CAPTURE(round);
    const pid_t child = ::fork();
    REQUIRE(child != -1);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) host.claim(77, 16)->poll();
    }
    ::usleep(static_cast<useconds_t>(1000 + 100 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(host.claim(1, 16)->poll() == 16);
  }
}

TEST_CASE("staging: however sessions come and go, nobody holds a piece twice or is left out") {
  const Host host;
  std::minstd_rand random(7);
  std::vector<std::unique_ptr<StagingClaim>> claims;
  for (int step = 0; step < 3000; ++step) {
    if (claims.size() < 24 && random() % 2 == 0) {
      const auto session = static_cast<std::uint32_t>(1 + random() % 12);
      const auto wanted = static_cast<std::uint32_t>(1 + random() % 16);
      claims.push_back(host.claim(session, wanted, static_cast<std::uint32_t>(1 + random() % 3)));
    }
    std::uint32_t held = 0;
    for (const auto& claim : claims) held += claim->poll();
    REQUIRE(held <= kTotal);
    // The longest waiting claim gets the first free piece.
    if (!claims.empty() && held < kTotal) REQUIRE(claims.front()->poll() > 0);
    if (!claims.empty() && random() % 3 == 0) {
      claims.erase(claims.begin() + static_cast<std::ptrdiff_t>(random() % claims.size()));
    }
  }
}

TEST_CASE("staging: a claim of nothing, or on no file, is refused") {
  const Host host;
  CHECK(code_of([&] { host.claim(1, 0); }) == ErrorCode::protocol);
  CHECK(code_of([&] {
          StagingClaim(host.folder.path() + "/none/staging", {kTotal, 1, 1, 1});
        }) == ErrorCode::io);
}
