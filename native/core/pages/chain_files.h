// A pages file and its ancestors in the folders of their images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/os/fd.h"
#include "core/pages/pages_chain.h"

namespace kfdcp {

/// Files that are open as long as this lives. Siblings are found in the folder of each file.
class ChainFiles {
 public:
  /// Paths of the file, its parent, and so on. No link is followed at the end of a path. Throws
  /// Error{io}, as PagesReader and as FrameChain.
  explicit ChainFiles(const std::vector<std::string>& paths);
  const FrameChain& chain() const { return *chain_; }

 private:
  struct Opened {
    explicit Opened(const std::string& path);
    UniqueFd fd;
    PagesReader reader;
    SiblingFiles siblings;
  };
  std::vector<std::unique_ptr<Opened>> opened_;
  std::unique_ptr<FrameChain> chain_;
};

}  // namespace kfdcp
