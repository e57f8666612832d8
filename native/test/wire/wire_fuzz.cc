// Random packets at the session socket. KFD_FUZZ_ITERATIONS says how many, KFD_FUZZ_SEED repeats
// a run. Worth most with the sanitizers.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <iterator>
#include <random>

#include "core/os/error.h"
#include "core/wire/wire.h"
#include "test/os/number_from_env.h"
#include "test/os/open_descriptors.h"
#include "test/os/random_bytes.h"
#include "test/wire/wire_raw.h"

namespace kfdcp::test {
namespace {

/// Half of the packets are well formed but for one field, so that the checks behind the first
/// are reached as well.
RawPacket random_packet(Random& random, std::size_t fds) {
  RawPacket packet;
  packet.text.resize(random.below(8) == 0 ? random.below(kMaxText + 100) : random.below(100));
  for (char& byte : packet.text) byte = static_cast<char>(random.next());
  packet.header.type = static_cast<std::uint32_t>(random.below(43));
  packet.header.text_bytes = static_cast<std::uint32_t>(packet.text.size());
  packet.header.fds = static_cast<std::uint32_t>(fds);
  for (std::uint64_t& arg : packet.header.args) arg = random.next();
  if (random.below(2) == 0) {
    auto* word = reinterpret_cast<std::uint32_t*>(&packet.header) + random.below(12);
    const std::uint32_t values[] = {0, 1, ~0u, static_cast<std::uint32_t>(random.next())};
    *word = values[random.below(std::size(values))];
  }
  if (random.below(8) == 0) packet.cut = 1 + random.below(sizeof(RawHeader) + packet.text.size());
  return packet;
}

/// The contract, decided a second time from the bytes.
bool acceptable(const std::string& bytes, std::size_t fds) {
  RawHeader header;
  if (bytes.size() < sizeof header || fds > kMaxFds) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint32_t type = header.type;
  const bool known = (1 <= type && type <= 3) || type == 10 || (20 <= type && type <= 29) ||
                     (30 <= type && type <= 42);
  return known && header.magic == RawHeader{}.magic && header.fds == fds &&
         std::uint64_t{header.text_bytes} + sizeof header == bytes.size() &&
         header.text_bytes <= kMaxText;
}

}  // namespace

TEST_CASE("wire: random packets are messages or protocol errors, and leak nothing") {
  const std::uint64_t iterations = number_from_env("KFD_FUZZ_ITERATIONS", 20'000);
  const std::uint64_t seed = number_from_env("KFD_FUZZ_SEED", std::random_device{}());
  MESSAGE("seed " << seed << ", " << iterations << " packets");
  Random random(seed);
  const Pair pair = packet_pair();
  const UniqueFd file(::memfd_create("x", MFD_CLOEXEC));
  const std::size_t before = open_descriptors();
  std::uint64_t accepted = 0;
  for (std::uint64_t i = 0; i < iterations; ++i) {
    const std::size_t fds = random.below(64) == 0 ? random.below(254) : random.below(3);
    const std::string bytes = random_packet(random, fds).bytes();
    send_raw(pair.a.get(), bytes, std::vector<int>(fds, file.get()));
    bool arrived = false;
    std::optional<ErrorCode> code;
    try {
      arrived = receive_message(pair.b.get()).has_value();
    } catch (const Error& error) {
      code = error.code;
    }
    const bool right = acceptable(bytes, fds) ? arrived && !code : code == ErrorCode::protocol;
    REQUIRE_MESSAGE(right, "packet " << i);
    if (arrived) ++accepted;
    if (i % 1024 == 0) REQUIRE(open_descriptors() == before);
  }
  CHECK(open_descriptors() == before);
  CHECK(accepted > iterations / 20);
  CHECK(accepted < iterations * 19 / 20);
}

}  // namespace kfdcp::test
