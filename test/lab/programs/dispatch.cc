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
      words_(runtime, runtime.host(), kBytes) {
  std::memset(words_.bytes().data(), 0, kBytes);
  const auto step = std::chrono::duration_cast<std::chrono::microseconds>(total) / kSteps;
  const kfdsim_microop operation{KFDSIM_MICROOP_MAGIC, KFDSIM_MICROOP_VERSION, KFDSIM_OP_INCREMENT};
  const kfdsim_microop_args arguments{reinterpret_cast<std::uintptr_t>(words_.bytes().data()),
                                      kBytes, 1, static_cast<std::uint32_t>(step.count())};
  std::byte* program = program_.bytes().data();
  std::memcpy(program, &operation, sizeof operation);
  std::memcpy(program + kArgumentsAt, &arguments, sizeof arguments);
  queue_.submit_dispatch(program, program + kArgumentsAt, completion_);
}

std::string LongDispatch::progress() const {
  const std::span words(words_of(words_), kBytes / sizeof(std::uint32_t));
  std::size_t done = 0;
  // Downwards: the GPU goes on meanwhile, upwards, so below a word that was done all are.
  for (std::size_t i = words.size(); i-- > 0;) {
    const std::uint32_t value = std::atomic_ref(words[i]).load(std::memory_order_acquire);
    if (value == 1) {
      ++done;
    } else if (value != 0 || done != 0) {
      throw kfdcp::Error(kfdcp::ErrorCode::corrupt,
                         "dispatch: word " + std::to_string(i) + " is " + std::to_string(value) +
                             ", with " + std::to_string(done) + " words done behind it");
    }
  }
  return std::to_string(done / kWordsPerStep) + "/" + std::to_string(kSteps);
}

}  // namespace lab
