#include "word_steps.h"

#include <atomic>
#include <string>

#include "core/os/error.h"
#include "microop.h"

namespace lab {

std::size_t steps_done(std::span<std::uint32_t> words) {
  std::size_t done = 0;
  // Downwards: the GPU continues meanwhile, upwards, so below a word that was done all are.
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
  return done / (KFDSIM_STEP_BYTES / sizeof(std::uint32_t));
}

}  // namespace lab
