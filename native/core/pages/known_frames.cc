#include "core/pages/known_frames.h"

#include "core/os/error.h"
#include "core/pages/pages.h"

namespace kfdcp {

namespace {

KnownFrames::Place in_sibling(const SiblingFrame& frame) {
  return {KnownFrames::Place::In::sibling, frame.packed()};
}

}  // namespace

KnownFrames::KnownFrames(ImageFrames* image, std::uint32_t process, std::uint32_t gpu)
    : image_(image),
      self_{static_cast<std::uint16_t>(process), static_cast<std::uint16_t>(gpu), 0} {}

void KnownFrames::add_parent(const PagesReader& parent) {
  if (!parent.summary().digests) {
    throw Error(ErrorCode::unsupported, "parent pages file: its frames have no digests");
  }
  const std::lock_guard lock(mutex_);
  const std::uint64_t frames = parent.summary().frames;
  for (std::uint64_t i = 0; i < frames; ++i) {
    const FrameEntry entry = parent.frame(i);
    if (entry.codec == Codec::zero) continue;
    places_.try_emplace(identity_of(entry), Place{Place::In::parent, i});
  }
}

std::optional<KnownFrames::Place> KnownFrames::find_here(const FrameIdentity& identity) const {
  const auto found = places_.find(identity);
  return found == places_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<KnownFrames::Place> KnownFrames::find(const FrameIdentity& identity) const {
  const std::lock_guard lock(mutex_);
  if (const auto here = find_here(identity)) return here;
  const auto sibling = image_ ? image_->find(identity) : std::nullopt;
  return sibling ? std::optional(in_sibling(*sibling)) : std::nullopt;
}

std::optional<KnownFrames::Place> KnownFrames::find_or_add(const FrameIdentity& identity,
                                                           std::uint32_t frame) {
  const std::lock_guard lock(mutex_);
  if (const auto here = find_here(identity)) return here;
  if (image_) {
    const SiblingFrame place{self_.process, self_.gpu, frame};
    if (const auto sibling = image_->find_or_add(identity, place)) return in_sibling(*sibling);
  }
  places_.emplace(identity, Place{Place::In::this_file, frame});
  return std::nullopt;
}

}  // namespace kfdcp
