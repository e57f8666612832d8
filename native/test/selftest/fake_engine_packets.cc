// The engine of FakeKfd: SDMA and AQL packets.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "test/selftest/fake_kfd.h"

namespace kfdcp::test {
namespace {

constexpr std::size_t kAqlBytes = 64;

std::uint64_t load(std::byte* at) {
  return std::atomic_ref(*reinterpret_cast<std::uint64_t*>(at)).load(std::memory_order_acquire);
}

template <class Word>
void store(std::byte* at, Word value) {
  std::atomic_ref(*reinterpret_cast<Word*>(at)).store(value, std::memory_order_release);
}

std::uint64_t pair(const std::uint32_t* words) { return words[0] | std::uint64_t{words[1]} << 32; }

/// Whether this packet is the one that a fault is for.
bool hit(int& count) { return count > 0 && --count == 0; }

}  // namespace

void FakeKfd::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    bool did = false;
    {
      const std::lock_guard lock(mutex_);
      if (!paused_) {
        for (auto& [id, queue] : queues_) did = step(queue) || did;
      }
    }
    if (!did) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// One packet of a queue. False when it has none that can run.
bool FakeKfd::step(Queue& queue) {
  std::byte* write = translate(queue.args.write_pointer_address, 8);
  if (write == nullptr) {
    problems_.push_back("write pointer is not mapped");
    return false;
  }
  const std::uint64_t end = load(write);
  if (queue.position == end) return false;
  const bool is_sdma = queue.args.queue_type == KFD_IOC_QUEUE_TYPE_SDMA;
  if (!(is_sdma ? sdma(queue, end) : aql(queue))) return false;
  store(translate(queue.args.read_pointer_address, 8), queue.position);
  return true;
}

bool FakeKfd::sdma(Queue& queue, std::uint64_t end) {
  std::uint32_t words[8] = {};
  const std::uint64_t at = queue.position % queue.args.ring_size;
  const std::size_t have =
      std::min<std::size_t>({sizeof words, end - queue.position, queue.args.ring_size - at});
  std::memcpy(words, translate(queue.args.ring_base_address + at, have), have);
  const std::size_t used = packet(words);
  if (used == 0 || used * 4 > have) {
    problems_.push_back("bad SDMA packet " + std::to_string(words[0]));
    queue.position = end;
    return true;
  }
  queue.position += used * 4;
  return true;
}

/// Runs it. Returns its length in dwords, 0 for one that is not known or has a bad address.
std::size_t FakeKfd::packet(const std::uint32_t* words) {
  switch (words[0] & 0xff) {
    case 0:
      return 1;
    case 1: {
      const std::size_t bytes = words[1] + 1;
      std::byte* from = translate(pair(words + 3), bytes);
      std::byte* to = translate(pair(words + 5), bytes);
      if (from == nullptr || to == nullptr || bytes > 1 << 22) return 0;
      std::memcpy(to, from, bytes);
      return 7;
    }
    case 5: {
      std::byte* to = translate(pair(words + 1), 4);
      if (to == nullptr) return 0;
      store(to, words[3]);
      return 4;
    }
    case 6:
      if (!hit(faults_.silent) && events_.contains(words[1])) events_[words[1]].set = true;
      raised_.notify_all();
      return 2;
    case 10: {
      std::byte* to = translate(pair(words + 1), 8);
      if (to == nullptr || words[0] >> 25 != 47) return 0;
      const std::uint64_t times = hit(faults_.lose) ? 0 : hit(faults_.twice) ? 2 : 1;
      store(to, load(to) + times * pair(words + 3));
      return 8;
    }
    default:
      return 0;
  }
}

bool FakeKfd::aql(Queue& queue) {
  const std::uint64_t at = queue.position * kAqlBytes % queue.args.ring_size;
  std::byte* slot = translate(queue.args.ring_base_address + at, kAqlBytes);
  const std::uint64_t header = load(slot);
  if ((header & 0xff) == 1) return false;
  if ((header & 0xff) != 3) {
    problems_.push_back("bad AQL packet");
    return false;
  }
  const std::uint64_t dependency = load(slot + 8);
  const std::uint64_t completion = load(slot + 56);
  constexpr std::size_t kValue = 8;
  if (dependency != 0 && load(translate(dependency + kValue, 8)) != 0 && !hit(faults_.early)) {
    return false;
  }
  store(slot, (header & ~std::uint64_t{0xffff}) | 1);
  if (completion != 0) {
    std::byte* value = translate(completion + kValue, 8);
    store(value, load(value) - 1);
  }
  ++queue.position;
  return true;
}

}  // namespace kfdcp::test
