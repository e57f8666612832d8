// Reading a buffer that a micro-operation of the simulated GPU increments, page after page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lab {

/// How many steps (KFDSIM_STEP_BYTES each) of an increment by 1 over `words`, which were 0, are
/// done. It may still run. Throws Error{corrupt} when a word was incremented more than once, or was
/// left out before a later one.
std::size_t steps_done(std::span<std::uint32_t> words);

}  // namespace lab
