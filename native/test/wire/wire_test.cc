// Messages of the session socket: what arrives, what is refused, and that no descriptor leaks.
#include "core/wire/wire.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/os/error.h"
#include "test/os/error_code.h"
#include "test/os/memory_file.h"
#include "test/os/open_descriptors.h"
#include "test/os/random_bytes.h"
#include "test/wire/wire_raw.h"

namespace kfdcp::test {
namespace {

const std::vector<MessageType> kAllTypes = {MessageType::ok,
                                            MessageType::error,
                                            MessageType::working,
                                            MessageType::stage,
                                            MessageType::dump_refused,
                                            MessageType::dump_pause,
                                            MessageType::dump_buffers,
                                            MessageType::dump_begin,
                                            MessageType::dump_file,
                                            MessageType::dump_end,
                                            MessageType::dump_state,
                                            MessageType::dump_unpaused,
                                            MessageType::dump_render,
                                            MessageType::dump_dmabuf,
                                            MessageType::dump_result,
                                            MessageType::dump_surveyed,
                                            MessageType::open_file,
                                            MessageType::restore_buffers,
                                            MessageType::restored,
                                            MessageType::render_file,
                                            MessageType::vmas_mapped,
                                            MessageType::restore_failed,
                                            MessageType::render_opened,
                                            MessageType::import_buffer,
                                            MessageType::render_state,
                                            MessageType::shared_bo,
                                            MessageType::restore_end};

bool same_inode(int a, int b) {
  struct stat first {
  }, second{};
  REQUIRE(::fstat(a, &first) == 0);
  REQUIRE(::fstat(b, &second) == 0);
  return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

TEST_CASE("wire: every type arrives with arguments and text as they were sent") {
  const Pair pair = packet_pair();
  for (const MessageType type : kAllTypes) {
    const std::array<std::uint64_t, 4> args{1, ~0ull, 1ull << 53, static_cast<std::uint64_t>(-7)};
    send_message(pair.a.get(), type, args, std::string("t\0ä", 4), {});
    const std::optional<Message> got = receive_message(pair.b.get());
    REQUIRE(got);
    CHECK(got->type == type);
    CHECK(got->args == args);
    CHECK(got->text == std::string("t\0ä", 4));
    CHECK(got->fds.empty());
  }
}

TEST_CASE("wire: who waits for an answer waits as long as the session works on it") {
  const Pair pair = packet_pair();
  constexpr int kSilence = 200;
  std::thread session([&] {
    for (int i = 0; i < 6; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kSilence / 2));
      send_message(pair.a.get(), MessageType::working, {}, "", {});
    }
    send_message(pair.a.get(), MessageType::ok, {7}, "", {});
  });
  CHECK(expect_answer(pair.b.get(), kSilence).args[0] == 7);
  session.join();
  int err = 0;
  try {
    expect_answer(pair.b.get(), 20);
  } catch (const Error& error) {
    err = error.err;
  }
  CHECK(err == ETIMEDOUT);
}

TEST_CASE("wire: a failure is sent with its reason, and whether it is one of ours") {
  const Pair pair = packet_pair();
  const auto sent = [&](const std::exception& error) {
    send_failure(pair.a.get(), MessageType::restore_failed, 7, error);
    std::optional<Message> got = receive_message(pair.b.get());
    REQUIRE(got);
    CHECK(got->type == MessageType::restore_failed);
    CHECK(got->args[0] == 7);
    return std::pair(got->args[1], got->text);
  };
  CHECK(sent(Error(ErrorCode::gpu, "KFD: busy")) == std::pair(0ul, std::string("KFD: busy")));
  CHECK(sent(std::out_of_range("map::at")) ==
        std::pair(1ul, std::string("internal error: map::at")));
  // A failure that cannot be reported is not a second failure.
  send_failure(-1, MessageType::restore_failed, 7, std::out_of_range("map::at"));
}

TEST_CASE("wire: up to 250 descriptors arrive in order and close on exec; 251 are refused") {
  const Pair pair = packet_pair();
  std::vector<UniqueFd> files;
  for (int i = 0; i < 251; ++i) files.emplace_back(::memfd_create("x", MFD_CLOEXEC));
  const std::size_t before = open_descriptors();
  for (const std::size_t count : {0u, 1u, 250u}) {
    std::vector<int> fds;
    for (std::size_t i = 0; i < count; ++i) fds.push_back(files[i].get());
    send_message(pair.a.get(), MessageType::dump_buffers, {}, "", fds);
    std::optional<Message> got = receive_message(pair.b.get());
    REQUIRE(got);
    REQUIRE(got->fds.size() == count);
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) {
      right = right && same_inode(got->fds[i].get(), files[i].get()) &&
              (::fcntl(got->fds[i].get(), F_GETFD) & FD_CLOEXEC) != 0;
    }
    CHECK(right);
    CHECK(open_descriptors() == before + count);
  }
  CHECK(open_descriptors() == before);
  const std::vector<int> many(251, files[0].get());
  CHECK(code_of([&] { send_message(pair.a.get(), MessageType::ok, {}, "", many); }) ==
        ErrorCode::protocol);
}

TEST_CASE("wire: send_buffers splits at 250 and keeps index and descriptor together") {
  const Pair pair = packet_pair();
  std::vector<std::pair<std::uint32_t, UniqueFd>> buffers;
  for (std::uint32_t i = 0; i < 501; ++i) {
    buffers.emplace_back(i * 3, UniqueFd(::memfd_create("x", MFD_CLOEXEC)));
  }
  std::thread sender([&] { send_buffers(pair.a.get(), MessageType::dump_buffers, 9, buffers); });
  std::size_t next = 0;
  for (const std::size_t expected : {250u, 250u, 1u}) {
    const Message got = expect_message(pair.b.get(), 5000);
    CHECK(got.type == MessageType::dump_buffers);
    CHECK(got.args[0] == 9);
    REQUIRE(got.fds.size() == expected);
    REQUIRE(got.text.size() == expected * 4);
    for (std::size_t i = 0; i < expected; ++i, ++next) {
      std::uint32_t index;
      std::memcpy(&index, got.text.data() + i * 4, 4);
      CHECK(index == buffers[next].first);
      CHECK(same_inode(got.fds[i].get(), buffers[next].second.get()));
    }
  }
  sender.join();
  CHECK(next == 501);
  send_buffers(pair.a.get(), MessageType::dump_buffers, 0, {});
  CHECK(nothing_to_read(pair.b.get()));
}

TEST_CASE("wire: text is cut at its limit, and the longest arrives whole") {
  const Pair pair = packet_pair();
  for (const std::size_t size : {kMaxText, kMaxText + 1}) {
    send_message(pair.a.get(), MessageType::error, {}, std::string(size, 'x'), {});
    CHECK(receive_message(pair.b.get())->text == std::string(kMaxText, 'x'));
  }
}

TEST_CASE("wire: a closed peer is the end, and sending to it an error, not a signal") {
  Pair pair = packet_pair();
  pair.a = UniqueFd();
  CHECK_FALSE(receive_message(pair.b.get()));
  CHECK(code_of([&] { send_message(pair.b.get(), MessageType::ok, {}, "", {}); }) == ErrorCode::io);
  CHECK(code_of([&] { expect_message(pair.b.get(), 1000); }) == ErrorCode::io);
}

TEST_CASE("wire: malformed packets are protocol errors and leak nothing") {
  const Pair pair = packet_pair();
  const UniqueFd file(::memfd_create("x", MFD_CLOEXEC));
  const std::size_t before = open_descriptors();
  const auto refused = [&](const RawPacket& packet, std::size_t fds) {
    send_raw(pair.a.get(), packet.bytes(), std::vector<int>(fds, file.get()));
    const auto code = code_of([&] { receive_message(pair.b.get()); });
    return code == ErrorCode::protocol && open_descriptors() == before &&
           nothing_to_read(pair.b.get());
  };
  RawPacket good;
  good.text = "abc";
  good.header.text_bytes = 3;
  good.header.fds = 1;
  send_raw(pair.a.get(), good.bytes(), {file.get()});
  REQUIRE(receive_message(pair.b.get()));

  SUBCASE("wrong magic") {
    good.header.magic ^= 1;
    CHECK(refused(good, 1));
  }
  SUBCASE("unknown types") {
    for (const std::uint32_t type : {0u, 4u, 9u, 11u, 19u, 43u, 0x80000001u, ~0u}) {
      good.header.type = type;
      CHECK_MESSAGE(refused(good, 1), type);
    }
  }
  SUBCASE("text shorter or longer than the header says") {
    for (const std::uint32_t bytes : {0u, 2u, 4u, 0x7fffffffu, ~0u, ~0u - 47u}) {
      good.header.text_bytes = bytes;
      CHECK_MESSAGE(refused(good, 1), bytes);
    }
  }
  SUBCASE("descriptors fewer or more than the header says") {
    CHECK(refused(good, 0));
    CHECK(refused(good, 2));
    good.header.fds = ~0u;
    CHECK(refused(good, 1));
  }
  SUBCASE("cut anywhere in the header") {
    for (std::size_t size = 1; size < sizeof(RawHeader); ++size) {
      good.cut = size;
      CHECK_MESSAGE(refused(good, 1), size);
    }
  }
  SUBCASE("descriptors without a byte") {
    good.cut = 0;
    CHECK(refused(good, 1));
  }
  SUBCASE("more bytes than any message has") {
    good.text.assign(kMaxText + 1, 'x');
    for (const std::size_t says : {kMaxText, kMaxText + 1}) {
      good.header.text_bytes = static_cast<std::uint32_t>(says);
      CHECK_MESSAGE(refused(good, 1), says);
    }
  }
  SUBCASE("more descriptors than any message has") {
    for (const std::uint32_t says : {250u, 251u, 253u}) {
      good.header.fds = says;
      CHECK_MESSAGE(refused(good, 251), says);
      CHECK_MESSAGE(refused(good, 253), says);
    }
  }
  send_message(pair.a.get(), MessageType::ok, {}, "next", {});
  CHECK(receive_message(pair.b.get())->text == "next");
}

TEST_CASE("wire: no answer in time is ETIMEDOUT, whatever signals come") {
  const Pair pair = packet_pair();
  struct sigaction quiet {
  }, old{};
  quiet.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &quiet, &old);
  const itimerval often{{0, 5000}, {0, 5000}}, never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  int err = 0;
  try {
    expect_message(pair.b.get(), 60);
  } catch (const Error& error) {
    err = error.err;
  }
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &old, nullptr);
  CHECK(err == ETIMEDOUT);
}

}  // namespace kfdcp::test
