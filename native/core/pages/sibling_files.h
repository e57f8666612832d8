// The other pages files of an image, for frames that they store.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/os/fd.h"
#include "core/pages/pages.h"

namespace kfdcp {

/// Opens each when a frame of it is asked for, and keeps it. Any thread.
class SiblingFiles {
 public:
  struct File {
    UniqueFd fd;
    FileRange range;
    /// What its index must have; none: whoever opened it cannot know.
    std::optional<std::array<std::uint8_t, 16>> root = std::nullopt;
  };
  /// Opens the file of process ordinal `process` on GPU ordinal `gpu`. Throws Error.
  using Open = std::function<File(std::uint32_t process, std::uint32_t gpu)>;
  /// A frame that stores its content.
  struct Frame {
    const PagesReader* file;  // lives as long as the SiblingFiles
    std::uint64_t index;      // there
    FrameEntry entry;
  };

  explicit SiblingFiles(Open open);
  /// Follows `reference`, of Codec::sibling. Throws Error{corrupt} when there is no such frame,
  /// when it stores nothing itself, or another content; as PagesReader and `open` for the file.
  Frame find(const FrameEntry& reference);
  /// Bytes that were read past the page cache so far.
  std::uint64_t direct_bytes() const;

 private:
  struct Opened {
    explicit Opened(File file);
    UniqueFd fd;
    PagesReader reader;
  };
  const PagesReader& reader(std::uint32_t process, std::uint32_t gpu);

  const Open open_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<Opened>> files_;
};

/// Opens what lies in the image directory `folder`. A file that is missing is Error{corrupt}.
SiblingFiles::Open siblings_in(std::string folder);

}  // namespace kfdcp
