#include "long_steps.h"

#include <cstring>

#include "core/os/error.h"
#include "word_steps.h"

namespace lab {
namespace {

constexpr std::size_t kPages = 1024;
constexpr std::size_t kBytes = kPages * KFDSIM_STEP_BYTES;
constexpr std::uint32_t kStepUs = 500'000;
constexpr std::size_t kSignalAt = 64;

}  // namespace

LongSteps::LongSteps(const BareGpu& gpu, std::chrono::milliseconds limit)
    : limit_(limit),
      queue_(gpu, {64}),
      words_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kBytes),
      extras_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, KFDSIM_STEP_BYTES) {
  std::memset(words_.bytes().data(), 0, kBytes);
  const kfdsim_microop_args arguments{words_.address(), kBytes, 1, kStepUs};
  const BareSignal signal{0, 1, {}};
  std::memcpy(extras_.bytes().data(), &arguments, sizeof arguments);
  std::memcpy(extras_.bytes().data() + kSignalAt, &signal, sizeof signal);
  queue_.dispatch(KFDSIM_OP_INCREMENT, extras_.address(), extras_.address(kSignalAt));
  queue_.ring_doorbell();
}

std::string LongSteps::progress() const {
  return std::to_string(steps_done({words_.words(), kBytes / sizeof(std::uint32_t)})) + "/" +
         std::to_string(kPages);
}

void LongSteps::check() {
  const std::size_t value_at = kSignalAt + offsetof(BareSignal, value);
  wait_until("dispatch", limit_, [&] { return load(*extras_.words(value_at)) == 0; });
  expect("dispatch: pages done", steps_done({words_.words(), kBytes / sizeof(std::uint32_t)}),
         kPages);
}

}  // namespace lab
