// Queues of every kind with work that cannot begin before the CPU says so.
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "bare_held.h"
#include "bare_queue.h"
#include "core/os/error.h"

namespace lab {
namespace {

constexpr std::uint32_t kSdmaSteps = 600;  // of two packets each
constexpr std::uint32_t kDispatches = 400;
constexpr std::uint32_t kSeed = 0x5eed;

// Of the buffer beside a queue, in bytes.
constexpr std::size_t kGate = 0;
constexpr std::size_t kDone = 64;
constexpr std::size_t kCount = 128;
constexpr std::size_t kSignals = 192;  // BareSignal: what is waited for, what is counted down
constexpr std::size_t kArguments = 512;
constexpr std::size_t kChain = 4096;
constexpr std::size_t kBufferBytes = kChain + 4096;
static_assert((kSdmaSteps + 1) * sizeof(std::uint32_t) <= 4096);

/// One queue with its backlog.
class Backlog {
 public:
  explicit Backlog(const BareGpu& gpu) : data_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kBufferBytes) {}
  virtual ~Backlog() = default;

  /// Fills the queue anew; it must be drained.
  virtual void arm() = 0;
  /// Everything ran once, in order, and nothing before its time.
  virtual void check(std::chrono::milliseconds limit) = 0;
  virtual const BareQueue& queue() const = 0;

 protected:
  std::string what() const { return "queue " + std::to_string(queue().id()) + ": "; }
  void clear() { std::memset(data_.bytes().data(), 0, data_.bytes().size()); }

  BareBuffer data_;
};

/// Step i copies word i of a chain to word i + 1 and counts: both tell when a packet was left out,
/// was run twice or came too early.
class SdmaBacklog : public Backlog {
 public:
  SdmaBacklog(const BareGpu& gpu, std::uint32_t engine) : Backlog(gpu), queue_(gpu, engine) {
    arm();
  }

  void arm() override {
    clear();
    *data_.words(kChain) = kSeed;
    queue_.poll(data_.address(kGate), 1);
    for (std::uint32_t i = 0; i < kSdmaSteps; ++i) {
      const std::uint64_t from = data_.address(kChain + i * sizeof kSeed);
      queue_.copy(from + sizeof kSeed, from, sizeof kSeed);
      queue_.add(data_.address(kCount), 1);
    }
    queue_.fence(data_.address(kDone), 1);
    queue_.ring_doorbell();
  }

  void check(std::chrono::milliseconds limit) override {
    expect(what() + "word behind the packet that waits", load(*data_.words(kChain + 4)), 0);
    expect(what() + "steps before its time", load(*data_.words(kCount)), 0);
    store(*data_.words(kGate), 1);
    wait_until(what() + "backlog", limit, [this] { return load(*data_.words(kDone)) == 1; });
    expect(what() + "steps", load(*data_.words(kCount)), kSdmaSteps);
    expect(what() + "end of the chain", load(data_.words(kChain)[kSdmaSteps]), kSeed);
    wait_until(what() + "its read pointer", limit, [this] { return queue_.drained(); });
  }

  const BareQueue& queue() const override { return queue_; }

 private:
  SdmaQueue queue_;
};

/// A barrier that waits for a signal, then dispatches that increment one word.
class AqlBacklog : public Backlog {
 public:
  AqlBacklog(const BareGpu& gpu, std::uint32_t priority, std::uint32_t percent)
      : Backlog(gpu), queue_(gpu, {512, priority, percent}) {
    arm();
  }

  void arm() override {
    clear();
    signal(0).value = signal(1).value = 1;
    const kfdsim_microop_args increment{data_.address(kCount), 4, 1, 0};
    const kfdsim_microop_args fill{data_.address(kDone), 4, kSeed, 0};
    std::memcpy(data_.bytes().data() + kArguments, &increment, sizeof increment);
    std::memcpy(data_.bytes().data() + kArguments + sizeof fill, &fill, sizeof fill);
    queue_.barrier(signal_address(0), 0);
    for (std::uint32_t i = 0; i < kDispatches; ++i) {
      queue_.dispatch(KFDSIM_OP_INCREMENT, data_.address(kArguments), 0);
    }
    queue_.dispatch(KFDSIM_OP_FILL, data_.address(kArguments + sizeof fill), signal_address(1));
    queue_.ring_doorbell();
  }

  void check(std::chrono::milliseconds limit) override {
    expect(what() + "dispatches before their time", load(*data_.words(kCount)), 0);
    store(value(0), 0);
    wait_until(what() + "backlog", limit, [this] { return load(value(1)) == 0; });
    expect(what() + "dispatches", load(*data_.words(kCount)), kDispatches);
    expect(what() + "the last dispatch", load(*data_.words(kDone)), kSeed);
    expect(what() + "packets consumed", queue_.consumed(), queue_.written());
  }

  const BareQueue& queue() const override { return queue_; }

 private:
  std::uint64_t signal_address(int index) const {
    return data_.address(kSignals + index * sizeof(BareSignal));
  }
  BareSignal& signal(int index) const {
    return *reinterpret_cast<BareSignal*>(data_.bytes().data() + kSignals +
                                          index * sizeof(BareSignal));
  }
  std::uint64_t& value(int index) const {
    return reinterpret_cast<std::uint64_t&>(signal(index).value);
  }

  AqlQueue queue_;
};

class HeldBacklogs : public Holding {
 public:
  HeldBacklogs(const BareGpu& gpu, std::chrono::milliseconds limit) : gpu_(gpu), limit_(limit) {
    std::vector<std::unique_ptr<SdmaQueue>> short_lived;
    const auto leave_hole = [&] {
      short_lived.push_back(std::make_unique<SdmaQueue>(gpu));
      holes_.push_back(short_lived.back()->id());
    };
    for (std::uint32_t engine = 0; engine < gpu.property("num_sdma_engines"); ++engine) {
      backlogs_.push_back(std::make_unique<SdmaBacklog>(gpu, engine));
    }
    leave_hole();
    backlogs_.push_back(std::make_unique<SdmaBacklog>(gpu, SdmaQueue::kAnyEngine));
    backlogs_.push_back(std::make_unique<AqlBacklog>(gpu, 0, 100));
    leave_hole();
    backlogs_.push_back(std::make_unique<AqlBacklog>(gpu, 7, 50));
    backlogs_.push_back(std::make_unique<AqlBacklog>(gpu, 15, 100));
  }

  const char* name() const override { return "queues"; }

  void check() override {
    for (const auto& backlog : backlogs_) {
      backlog->queue().expect_known();
      backlog->check(limit_);
      backlog->arm();
    }
    for (const std::uint32_t hole : holes_) {
      kfd_ioctl_update_queue_args update{};
      update.queue_id = hole;
      expect("errno of a queue that is gone", gpu_.attempt(AMDKFD_IOC_UPDATE_QUEUE, &update),
             EFAULT);
    }
    const SdmaQueue fresh(gpu_);
    expect("number of a new queue", fresh.id(), holes_.front());
  }

 private:
  const BareGpu& gpu_;
  const std::chrono::milliseconds limit_;
  std::vector<std::unique_ptr<Backlog>> backlogs_;
  std::vector<std::uint32_t> holes_;  // numbers that no queue has, rising
};

}  // namespace

std::unique_ptr<Holding> hold_backlogs(const BareGpu& gpu, std::chrono::milliseconds limit) {
  return std::make_unique<HeldBacklogs>(gpu, limit);
}

}  // namespace lab
