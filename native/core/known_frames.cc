#include "core/known_frames.h"

#include "core/error.h"
#include "core/pages.h"

namespace kfdcp {

void KnownFrames::add_parent(const PagesReader& parent) {
  if (!parent.summary().digests) {
    throw Error(ErrorCode::unsupported, "parent pages file: its frames have no digests");
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t frames = parent.summary().frames;
  for (std::uint64_t i = 0; i < frames; ++i) {
    const FrameEntry entry = parent.frame(i);
    if (entry.codec == Codec::zero) continue;
    places_.try_emplace({entry.digest, entry.checksum, entry.raw},
                        Place{true, static_cast<std::uint32_t>(i)});
  }
}

void KnownFrames::add(const Identity& identity, std::uint32_t frame) {
  const std::lock_guard lock(mutex_);
  places_.try_emplace(identity, Place{false, frame});
}

std::optional<KnownFrames::Place> KnownFrames::find(const Identity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(identity);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace kfdcp
