// Checks the references between the pages files of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/pages/pages.h"

namespace kfdcp {

/// The frames of one pages file, and its references to others. It takes 8 bytes for each frame and
/// 16 for each reference, at most 96 MiB.
class SiblingLinks {
 public:
  /// The next frame, in the order of the index.
  void add(const FrameEntry& frame);
  std::size_t bytes() const;

 private:
  friend class SiblingCheck;
  struct Reference {
    std::uint64_t place;  // SiblingFrame, packed
    std::uint64_t identity;
  };
  std::vector<std::uint64_t> stored_;  // hash of the identity; 0: not stored
  std::vector<Reference> references_;
};

/// Compares all files of an image by their indexes. Contents are distinguished by 64 bits of hash
/// here. A restore compares digests, and verifies everything that it reads.
class SiblingCheck {
 public:
  struct Problem {
    std::uint32_t process;  // of the file that refers, as is the GPU: ordinals
    std::uint32_t gpu;
    std::string reason;
    bool operator==(const Problem&) const = default;
  };

  /// `most_bytes`: memory for what files have and refer to.
  explicit SiblingCheck(std::size_t most_bytes = kMaxBytes) : most_bytes_(most_bytes) {}
  /// A file that is sound by itself. Of two with the same ordinals the first counts.
  void add(const PagesOptions& options, SiblingLinks links);
  void add(const PagesReader& file);
  /// To be called after the last file. Returns the first reason against each file with a missing
  /// reference. Frames beyond the memory limit cannot be checked, which is a reason, too.
  std::vector<Problem> problems() const;

  /// 64 TiB of contents in frames of 2 MiB without references.
  static constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

 private:
  using Id = std::pair<std::uint32_t, std::uint32_t>;
  std::string judge(const SiblingLinks::Reference& reference) const;

  const std::size_t most_bytes_;
  std::map<Id, SiblingLinks> files_;
  std::map<Id, bool> left_out_;  // whether they refer to others
  std::size_t bytes_ = 0;
};

}  // namespace kfdcp
