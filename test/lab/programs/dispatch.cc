#include "dispatch.h"

#include <cstring>
#include <span>

#include "microop.h"
#include "word_steps.h"

namespace lab {
namespace {

constexpr std::size_t kSteps = 256;
constexpr std::size_t kBytes = kSteps * KFDSIM_STEP_BYTES;
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
  return std::to_string(steps_done(words)) + "/" + std::to_string(kSteps);
}

}  // namespace lab
