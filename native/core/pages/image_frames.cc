#include "core/pages/image_frames.h"

namespace kfdcp {

std::optional<SiblingFrame> ImageFrames::find(const FrameIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(identity);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<SiblingFrame> ImageFrames::find_or_add(const FrameIdentity& identity,
                                                     const SiblingFrame& place) {
  const std::lock_guard lock(mutex_);
  const auto [found, added] = places_.try_emplace(identity, place);
  return added ? std::nullopt : std::optional(found->second);
}

}  // namespace kfdcp
