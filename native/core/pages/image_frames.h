// Contents that any pages file of the current image already stores.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/pages/frame_identity.h"
#include "core/pages/pages.h"

namespace kfdcp {

/// Shared by the writers of one image, which may run at once. It has stored frames alone, so that
/// what refers to one of them is never referred to itself. Any thread.
class ImageFrames {
 public:
  std::optional<SiblingFrame> find(const FrameIdentity& identity) const;
  /// Where the content is; none: nowhere until now, and at `place` from now on.
  std::optional<SiblingFrame> find_or_add(const FrameIdentity& identity, const SiblingFrame& place);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<FrameIdentity, SiblingFrame, FrameIdentity::Hash> places_;
};

}  // namespace kfdcp
