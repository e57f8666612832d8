#include "core/pages/chain_files.h"

#include <fcntl.h>

#include <filesystem>

#include "core/os/error.h"

namespace kfdcp {

namespace {

UniqueFd open_file(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) throw io_error(path);
  return fd;
}

}  // namespace

ChainFiles::Opened::Opened(const std::string& path)
    : fd(open_file(path)),
      reader(fd.get()),
      siblings(siblings_in(std::filesystem::path(path).parent_path())) {}

ChainFiles::ChainFiles(const std::vector<std::string>& paths) {
  std::vector<ChainFile> files;
  for (const std::string& path : paths) {
    opened_.push_back(std::make_unique<Opened>(path));
    files.emplace_back(&opened_.back()->reader, &opened_.back()->siblings);
  }
  chain_ = std::make_unique<FrameChain>(std::move(files));
}

}  // namespace kfdcp
