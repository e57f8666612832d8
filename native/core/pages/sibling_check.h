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

/// What one pages file has for others, and what it takes from them: 8 bytes a frame, and 16 for
/// each frame that is elsewhere; at most 96 MiB.
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

/// Holds all files of an image against each other, by their indexes. Contents are told apart by 64
/// bits of hash here; a restore compares digests, and verifies what it reads by them.
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
  /// After the last file: of each file that refers to what is not there, the first reason. What is
  /// beyond the memory cannot be checked, which is a reason, too.
  std::vector<Problem> problems() const;

  /// 64 TiB of contents in frames of 2 MiB, none of which is elsewhere.
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
