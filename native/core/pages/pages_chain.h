// A pages file and the files that it refers to.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "core/pages/pages.h"

namespace kfdcp {

class SiblingFiles;

/// A file, and the others of its image, which it may refer to.
struct ChainFile {
  ChainFile(const PagesReader* file, SiblingFiles* siblings = nullptr)
      : file(file), siblings(siblings) {}
  const PagesReader* file;
  SiblingFiles* siblings;  // none: it must refer to none
};

/// Writes a pages file that has no parent, with the contents of `chain`: the file itself, then its
/// parent, then that one's parent, to the one that has none. Stored bytes are copied as they are;
/// every frame is verified. What `image`, of the image that the new file is for, has is referred to
/// there: all files of it with siblings must be written anew, for frames are stored elsewhere then.
/// `fd` and `image` as for PagesWriter. Throws Error{corrupt} for a chain whose roots do not fit or
/// whose frames differ from the saved ones, Error{io}, Error{cancelled}.
PagesSummary flatten_pages(const std::vector<ChainFile>& chain, int fd, std::stop_token stop = {},
                           ImageFrames* image = nullptr);

}  // namespace kfdcp
