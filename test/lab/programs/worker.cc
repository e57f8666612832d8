#include "worker.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "churn.h"
#include "core/os/error.h"
#include "kfd.h"

namespace lab {
namespace {

/// Words that are the same one after the other: LZ4 finds no shorter ones worth the while.
constexpr std::size_t kRepeats = 8;

kfdcp::Mapping anonymous_memory(std::size_t size) {
  if (size == 0) return {};
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw kfdcp::io_error("host memory");
  return {base, size};
}

}  // namespace

Worker::Worker(const Options& options, const Peer* peer)
    : options_(options),
      runtime_(options.gpu),
      pattern_(options.seed, options.compressible ? kRepeats : 1),
      dma_(runtime_, options.limit),
      host_memory_(anonymous_memory(options.host_bytes)),
      counter_(runtime_, dma_, pattern_) {
  if (options_.vram_bytes != 0) vram_.add(runtime_, dma_, pattern_, 1, options_.vram_bytes);
  vram_.add(runtime_, dma_, pattern_, options_.buffer_count, options_.buffer_bytes);
  if (vram_.count() != 0) dma_.verify(vram_.front().bytes(), pattern_, 0);
  if (options_.changing_bytes != 0) {
    changing_.emplace(runtime_, dma_, options_.seed, options_.changing_bytes,
                      options_.changes_bytes);
  }
  pattern_.write(kHostMemory, 0, host_memory_.bytes());
  if (options_.pending_barrier) barrier_.emplace(runtime_);
  if (options_.events_waiter) waiter_.emplace(runtime_);
  if (options_.dispatch.count() != 0) dispatch_.emplace(runtime_, options_.dispatch);
  if (options_.dmabuf) held_.push_back(hold_dmabuf(vram_.front()));
  if (options_.gem) held_.push_back(hold_gem(runtime_, pattern_, false));
  if (options_.double_render) held_.push_back(hold_gem(runtime_, pattern_, true));
  if (options_.double_kfd) held_.push_back(hold_second_kfd());
  if (options_.other_gpu) held_.push_back(hold_other_gpu(runtime_, dma_, pattern_));
  if (options_.split) {
    held_.push_back(hold_split(runtime_, dma_, pattern_, options_.control_dir + "/split.bin"));
  }
  if (options_.io_uring) held_.push_back(hold_io_uring());
  if (options_.map_dmabuf) held_.push_back(hold_mapping(runtime_, pattern_));
  if (peer != nullptr) held_.push_back(hold_share(runtime_, dma_, pattern_, *peer, options.ipc));
  if (options_.fork_holder) held_.push_back(hold_fork());
}

std::string Worker::ready_line() const {
  const auto maps = self_maps();
  const auto mapped = std::ranges::count_if(maps, is_render_map);
  std::string line =
      "ready pid=" + std::to_string(getpid()) + " gpu=" + runtime_.gpu_name() +
      " bytes=" + std::to_string(vram_.bytes() + options_.changing_bytes) +
      " buffers=" + std::to_string(vram_.count()) + " mapped_bos=" + std::to_string(mapped) +
      " host_bytes=" + std::to_string(host_memory_.size()) +
      " barrier=" + (barrier_ ? "pending" : "none") + " waiter=" + (waiter_ ? "asleep" : "none");
  for (const auto& holding : held_) line += std::string(" holds=") + holding->name();
  return line;
}

std::string Worker::counter_text() const { return " counter=" + std::to_string(counter_.value()); }

std::string Worker::verify() {
  if (barrier_) barrier_->release(options_.limit);
  if (waiter_) waiter_->poke(options_.limit);
  vram_.verify(dma_, pattern_);
  if (changing_) changing_->verify();
  pattern_.check("host memory", kHostMemory, 0, host_memory_.bytes());
  counter_.step();
  std::string line = "verified bytes=" + std::to_string(vram_.bytes() + options_.changing_bytes) +
                     " barrier=" + (barrier_ ? "completed" : "none") + counter_text() +
                     " host_bytes=" + std::to_string(host_memory_.size()) +
                     " waiter=" + (waiter_ ? "woken" : "none") +
                     " dispatch=" + (dispatch_ ? dispatch_->progress() : "none");
  for (const auto& holding : held_) {
    holding->check();
    line += std::string(" holds=") + holding->name();
  }
  return line;
}

std::string Worker::answer(const Command& command) {
  if (command.verb == "exit") return "exiting" + counter_text();
  if (!step_failure_.empty()) throw kfdcp::Error(kfdcp::ErrorCode::gpu, step_failure_);
  if (command.verb == "status") {
    return "running" + counter_text() + " dispatch=" + (dispatch_ ? dispatch_->progress() : "none");
  }
  if (command.verb == "verify") return verify();
  if (command.verb == "churn") {
    const std::uint64_t bytes = churn(runtime_, dma_, pattern_, options_.limit);
    return "churned bytes=" + std::to_string(bytes) + counter_text();
  }
  if (command.verb == "spoil" && vram_.count() != 0) {
    vram_.spoil(dma_);
    return "spoiled" + counter_text();
  }
  throw kfdcp::Error(
      kfdcp::ErrorCode::protocol,
      "command \"" + command.verb + "\": use verify, status, churn, spoil (with VRAM) or exit");
}

void Worker::tick(std::chrono::milliseconds passed) {
  since_step_ += passed;
  if (options_.step_every.count() == 0 || since_step_ < options_.step_every) return;
  since_step_ = {};
  if (!step_failure_.empty()) return;
  try {
    if (changing_) changing_->step();
    counter_.step();
  } catch (const kfdcp::Error& error) {
    if (error.code == kfdcp::ErrorCode::cancelled) return;
    step_failure_ = error.what();
  }
}

}  // namespace lab
