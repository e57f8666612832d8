// A pages file and the files that it refers to.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "core/pages/pages.h"
#include "core/pages/sibling_files.h"

namespace kfdcp {

/// A file, and the others of its image, which it may refer to.
struct ChainFile {
  ChainFile(const PagesReader* file, SiblingFiles* siblings = nullptr)
      : file(file), siblings(siblings) {}
  const PagesReader* file;
  SiblingFiles* siblings;  // none: it must refer to none
};

/// A file, its parent, that one's parent and so on: where the contents of the first are stored.
class FrameChain {
 public:
  /// Parents may be missing at the end, where nobody asks for their frames. All outlive this.
  /// Throws Error{corrupt} for a file that is not the parent of the one before it.
  explicit FrameChain(std::vector<ChainFile> files);
  const PagesReader& file() const { return *files_.front().file; }
  std::size_t files() const { return files_.size(); }
  /// Whether the last file has a parent itself.
  bool is_open() const;
  /// Where frame `index` of the first file is stored, or the zero frame that it is. Throws
  /// Error{corrupt} when a reference leads to none, or to another content.
  SiblingFiles::Frame find(std::uint64_t index) const;
  /// Finds all frames of the first file. Throws as find().
  void check() const;
  /// Bytes of all files that were read past the page cache so far.
  std::uint64_t direct_bytes() const;

 private:
  const std::vector<ChainFile> files_;
};

/// Writes a pages file that has no parent, with the contents of `files`: the file itself, then its
/// parent, then that one's parent, to the one that has none. Stored bytes are copied as they are;
/// every frame is verified. What `image`, of the image that the new file is for, has is referred to
/// there: all files of it with siblings must be written anew, for frames are stored elsewhere then.
/// `fd` and `image` as for PagesWriter. Throws Error{corrupt} for a chain whose roots do not fit or
/// whose frames differ from the saved ones, Error{io}, Error{cancelled}.
PagesSummary flatten_pages(const std::vector<ChainFile>& files, int fd, std::stop_token stop = {},
                           ImageFrames* image = nullptr);

}  // namespace kfdcp
