#include "selftest/program.h"

#include <doctest/doctest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "selftest/mailbox.h"
#include "selftest/wait.h"
#include "test/os/folder.h"
#include "test/selftest/fake_kfd.h"

using namespace kfdcp;
using namespace kfdcp::test;
using selftest::Options;
using selftest::Program;

namespace {

/// The program on a fake host.
struct Fixture {
  explicit Fixture(unsigned gpus = 1, bool svm = false, bool shares = false)
      : kfd(folder.path(), gpus, svm) {
    Options options{folder.path(), {}, 1 << 20, shares};
    for (unsigned i = 0; i < gpus; ++i) options.minors.push_back(FakeKfd::kFirstMinor + i);
    program = std::make_unique<Program>(options, kfd.places());
  }

  std::string failure() {
    try {
      program->verify();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  Folder folder;
  FakeKfd kfd;
  std::unique_ptr<Program> program;
};

}  // namespace

TEST_CASE("selftest program: all it holds is as it was, again and again") {
  for (const bool svm : {false, true}) {
    Fixture host(1, svm);
    for (int i = 0; i < 3; ++i) {
      CHECK(host.failure() == "");
      host.program->feed();
    }
    const std::string state = host.program->state();
    const std::string parts =
        svm ? R"("contents","svm","aql","events","sdma")" : R"("contents","aql","events","sdma")";
    CHECK(state.find("\"parts\":[" + parts + "]") != std::string::npos);
    CHECK(host.kfd.problems() == std::vector<std::string>{});
    host.program.reset();
    CHECK(host.kfd.counts().bos == 0);
    CHECK(host.kfd.counts().queues == 0);
    CHECK(host.kfd.counts().events == 0);
  }
}

TEST_CASE("selftest program: on two GPUs, with one event page") {
  Fixture host(2);
  CHECK(host.failure() == "");
  CHECK(host.kfd.problems() == std::vector<std::string>{});
}

TEST_CASE("selftest program: two processes share a buffer") {
  Fixture host(1, false, true);
  for (int i = 0; i < 3; ++i) CHECK(host.failure() == "");
}

TEST_CASE("selftest program: queues that stand still between two looks go on") {
  Fixture host;
  std::string before;
  // The queues may have come to their end before the pause: this thread has to be fast enough once.
  for (int attempt = 0; attempt < 100; ++attempt) {
    host.program->feed();
    host.kfd.pause(true);
    before = host.program->state();
    if (before.find("\"busy\":true") != std::string::npos) break;
    host.kfd.pause(false);
    REQUIRE(host.failure() == "");
  }
  REQUIRE(before.find("\"busy\":true") != std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(host.program->state() == before);
  host.kfd.pause(false);
  CHECK(host.failure() == "");
}

TEST_CASE("selftest program: what is not as it was is found, and named") {
  const std::vector<std::pair<std::string, std::function<void(FakeKfd&)>>> cases = {
      {"renderD128: VRAM, read by the GPU: byte 524288 is",
       [](FakeKfd& kfd) { kfd.harm(1 << 20); }},
      {"renderD128: GTT: byte", [](FakeKfd& kfd) { kfd.harm((3 << 20) + 3 * 4096); }},
      {"SDMA queue: made", [](FakeKfd& kfd) { kfd.set_faults({.lose = 2}); }},
      {"SDMA queue: made", [](FakeKfd& kfd) { kfd.set_faults({.twice = 2}); }},
      {"AQL queue: a barrier did not wait", [](FakeKfd& kfd) { kfd.set_faults({.early = 1}); }},
      {"event: a wait ended before", [](FakeKfd& kfd) { kfd.raise_all(); }},
      {"shared virtual memory: its granularity is 9, was 5",
       [](FakeKfd& kfd) { kfd.forget_svm(); }},
  };
  for (const auto& [expected, harm] : cases) {
    CAPTURE(expected);
    Fixture host(1, true);
    CHECK(host.failure() == "");
    host.kfd.pause(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    harm(host.kfd);
    host.kfd.pause(false);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(host.failure().find(expected) != std::string::npos);
    host.kfd.set_faults({});
  }
}

TEST_CASE("selftest program: options") {
  const Options options = selftest::parse_options(
      {"--folder", "/x", "--render", "128", "--render", "130", "--mib", "3", "--share", "--child"});
  CHECK(options.folder == "/x");
  CHECK(options.minors == std::vector<unsigned>{128, 130});
  CHECK(options.vram_bytes == 3 << 20);
  CHECK(options.shares);
  CHECK(options.child);
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"--folder", "/x"},
      {"--render", "128"},
      {"--folder", "/x", "--render"},
      {"--folder", "/x", "--render", "card0"},
      {"--folder", "/x", "--render", "128", "--mib", "0"},
      {"--folder", "/x", "--render", "128", "--mib", "12x"},
      {"--folder", "/x", "--render", "128", "--else"},
  };
  for (const auto& words : wrong) {
    CHECK_THROWS_AS(selftest::parse_options(words), Error);
  }
}

TEST_CASE("selftest program: a GPU that is not there, and one that is too old") {
  Folder folder;
  FakeKfd kfd(folder.path(), 1, false);
  Options options{folder.path(), {129}, 1 << 20, false};
  CHECK_THROWS_WITH_AS(Program(options, kfd.places()),
                       doctest::Contains("renderD129: No such file"), Error);
}

TEST_CASE("selftest program: the mailbox") {
  Folder folder;
  const selftest::Mailbox mailbox(folder.path());
  CHECK(!mailbox.take());
  folder.write("order", "7 verify\n");
  const auto order = mailbox.take();
  REQUIRE(order);
  CHECK(order->id == "7");
  CHECK(order->verb == "verify");
  CHECK(!mailbox.take());
  mailbox.answer("7", "failed", "\"reason\":" + selftest::json_text("a \"b\"\\\n\xff"));
  mailbox.answer("", "ready", "");
  std::ifstream answers(folder.path() + "/answers");
  const std::string text{std::istreambuf_iterator<char>(answers), {}};
  CHECK(text ==
        "{\"id\":\"7\",\"result\":\"failed\",\"reason\":\"a \\\"b\\\"\\\\\\u000a\\u00ff\"}\n"
        "{\"id\":\"\",\"result\":\"ready\"}\n");
  CHECK(mailbox.exists());
  CHECK(!selftest::Mailbox(folder.path() + "/none").exists());
}
