// A trial of a copy engine on a buffer that nobody else uses.
#pragma once

#include <cstdint>
#include <stop_token>

#include "core/copy/copy_engine.h"
#include "core/transfer/transfer.h"

namespace kfdcp {

/// Times of copies alone, without the making and comparing of contents.
struct CopyTrial {
  std::uint64_t bytes;
  std::uint64_t write_us;  // to the buffer
  std::uint64_t read_us;   // from it
};

/// Writes known contents to all of `buffer` and reads them back, with copies in flight in all slots
/// of `engine`: first in a way that can be timed, then with contents that no two places have in
/// common. Every byte is compared. Contents depend on `seed`, so that those of an earlier trial are
/// not taken for right. Throws Error{gpu} for a wrong byte, errors of the engine, and
/// Error{cancelled} after a requested stop, which is seen before the next copy.
CopyTrial try_copies(CopyEngine& engine, const ContentBuffer& buffer, std::uint64_t seed,
                     const std::stop_token& stop);

}  // namespace kfdcp
