// Contents that are already stored: in the current file, in its parent, or in another file of the
// image.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "core/pages/frame_identity.h"
#include "core/pages/image_frames.h"

namespace kfdcp {

class PagesReader;

/// Any thread.
class KnownFrames {
 public:
  struct Place {
    enum class In { this_file, parent, sibling };
    In in;
    std::uint64_t frame;  // its number there; In::sibling: SiblingFrame, packed
  };

  /// Of the file of process ordinal `process` on GPU ordinal `gpu`; `image`, if there is one,
  /// outlives this.
  explicit KnownFrames(ImageFrames* image = nullptr, std::uint32_t process = 0,
                       std::uint32_t gpu = 0);
  /// All frames of `parent`, which must have digests, else Error{unsupported}.
  void add_parent(const PagesReader& parent);
  /// This file and its parent come before the others of the image.
  std::optional<Place> find(const FrameIdentity& identity) const;
  /// Where the content is; none: nowhere until now, and from now on in this file, as `frame`.
  std::optional<Place> find_or_add(const FrameIdentity& identity, std::uint32_t frame);

 private:
  /// mutex_ is held.
  std::optional<Place> find_here(const FrameIdentity& identity) const;

  ImageFrames* const image_;
  const SiblingFrame self_;
  mutable std::mutex mutex_;
  std::unordered_map<FrameIdentity, Place, FrameIdentity::Hash> places_;
};

}  // namespace kfdcp
