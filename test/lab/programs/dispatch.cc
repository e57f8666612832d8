#include "dispatch.h"

#include <atomic>
#include <cstring>
#include <span>

#include "core/error.h"
#include "microop.h"

namespace lab {
namespace {

constexpr std::size_t kSteps = 256;
constexpr std::size_t kBytes = kSteps * KFDSIM_STEP_BYTES;
constexpr std::size_t kWordsPerStep = KFDSIM_STEP_BYTES / sizeof(std::uint32_t);
constexpr std::size_t kArgumentsAt = 64;
static_assert(sizeof(kfdsim_microop) <= kArgumentsAt);

std::uint32_t* words_of(const PoolBuffer& buffer) {
  return reinterpret_cast<std::uint32_t*>(buffer.bytes().data());
}

}  // namespace

// Host memory: the CPU can look at it while the GPU is at work.
LongDispatch::LongDispatch(const Runtime& runtime, std::chrono::milliseconds total)
    : queue_(runtime),
      program_(runtime, runtime.host(), KFDSIM_STEP_BYTES),
      words_(runtime, runtime.host(), kBytes),
      step_us_(static_cast<std::uint32_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(total).count() / kSteps)) {
  std::memset(words_.bytes().data(), 0, kBytes);
  start();
}

void LongDispatch::start() {
  const kfdsim_microop operation{KFDSIM_MICROOP_MAGIC, KFDSIM_MICROOP_VERSION, KFDSIM_OP_INCREMENT};
  const kfdsim_microop_args arguments{reinterpret_cast<std::uintptr_t>(words_.bytes().data()),
                                      kBytes, 1, step_us_};
  std::byte* program = program_.bytes().data();
  std::memcpy(program, &operation, sizeof operation);
  std::memcpy(program + kArgumentsAt, &arguments, sizeof arguments);
  ++round_;
  completion_.store(1);
  queue_.submit_dispatch(program, program + kArgumentsAt, completion_);
}

std::size_t LongDispatch::words_done() const {
  const std::span words(words_of(words_), kBytes / sizeof(std::uint32_t));
  std::size_t done = 0;
  // Downwards: the GPU goes on meanwhile, upwards, so below a word that was done all are.
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::uint32_t value = std::atomic_ref(words[i]).load(std::memory_order_acquire);
    if (value == round_) {
      ++done;
    } else if (value != round_ - 1 || done != 0) {
      throw kfdcp::Error(kfdcp::ErrorCode::corrupt,
                         "dispatch: word " + std::to_string(i) + " is " + std::to_string(value) +
                             " in round " + std::to_string(round_) + ", with " +
                             std::to_string(done) + " words done behind it");
    }
  }
  return done;
}

std::string LongDispatch::progress() const {
  return std::to_string(words_done() / kWordsPerStep) + "/" + std::to_string(kSteps);
}

void LongDispatch::finish(std::chrono::milliseconds limit) {
  completion_.wait_done("dispatch", limit);
  if (const std::size_t done = words_done(); done != kBytes / sizeof(std::uint32_t)) {
    throw kfdcp::Error(kfdcp::ErrorCode::corrupt,
                       "dispatch: complete after " + std::to_string(done) + " words");
  }
  start();
}

}  // namespace lab
