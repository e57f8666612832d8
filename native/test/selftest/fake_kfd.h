// A KFD with a GPU that runs packets, for the program of the self-test.
#pragma once

#include <linux/kfd_ioctl.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "core/os/fd.h"
#include "selftest/gpu.h"
#include "test/kfd/kfd_fakes.h"

namespace kfdcp::test {

/// What the hardware shall do wrong from now on. A count goes down with every packet of its kind;
/// the one that makes it 0 is hit.
struct GpuFaults {
  int lose = 0;    // this atomic does nothing
  int twice = 0;   // this atomic is made twice
  int early = 0;   // this barrier does not wait
  int silent = 0;  // this trap raises nothing
};

/// Files that stand for /dev/kfd, render nodes and the topology, and the answers to their ioctls
/// while it lives. VRAM and GTT lie in the file of the render node, so another process can have
/// its own fake of the same files.
class FakeKfd {
 public:
  static constexpr unsigned kFirstMinor = 128;

  /// `folder`: an empty one. `svm`: GPUs have shared virtual memory.
  FakeKfd(const std::string& folder, unsigned gpus, bool svm);
  ~FakeKfd();

  selftest::Places places() const;

  /// Changes what the GPU does, between two packets.
  void set_faults(const GpuFaults& faults);
  /// Stops queues, as PROCESS_INFO does, and lets them run.
  void pause(bool paused);
  /// Sets every event, as a stray interrupt does.
  void raise_all();
  /// Forgets the attributes of all SVM ranges, and the GPU's access to them.
  void forget_svm();
  /// Inverts a bit in each BO of this size.
  void harm(std::uint64_t bytes);

  /// Objects that are alive.
  struct Counts {
    std::size_t bos, queues, events;
  };
  Counts counts();
  std::vector<std::string> problems();

 private:
  struct Bo {
    std::uint64_t va, bytes;
    std::uint64_t offset;  // in the render node's file
    Mapping mapping;       // not of user memory
    std::byte* base;
  };
  struct Queue {
    kfd_ioctl_create_queue_args args;
    std::uint64_t position = 0;
  };
  struct Event {
    bool set = false;
  };

  int answer(int fd, unsigned long request, void* argument);
  int memory_call(unsigned long request, void* argument);
  int share_call(unsigned long request, void* argument);
  int event_call(unsigned long request, void* argument);
  int wait(kfd_ioctl_wait_events_args& args);
  int svm_call(unsigned long request, void* argument);
  int add_bo(std::uint64_t va, std::uint64_t bytes, std::uint64_t offset, std::byte* user,
             std::uint32_t gpu, __u64& handle);

  void work(const std::stop_token& stop);
  bool step(Queue& queue);
  bool sdma(Queue& queue, std::uint64_t end);
  bool aql(Queue& queue);
  std::size_t packet(const std::uint32_t* words);
  std::byte* translate(std::uint64_t va, std::size_t bytes);
  std::string render_of(std::uint32_t gpu) const;

  const std::string folder_;
  std::recursive_mutex mutex_;
  std::condition_variable_any raised_;
  GpuFaults faults_;
  bool paused_ = false;
  std::map<std::uint64_t, Bo> bos_;  // by handle
  std::map<std::uint32_t, Queue> queues_;
  std::map<std::uint32_t, Event> events_;
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> svm_;  // bytes, granularity
  std::uint64_t event_page_ = 0;
  const int made_by_;              // a process
  std::uint64_t next_offset_ = 0;  // in its half of the files
  std::vector<std::string> problems_;
  FakeKernel kernel_;
  std::jthread engine_;  // of the process that made the first queue
};

}  // namespace kfdcp::test
