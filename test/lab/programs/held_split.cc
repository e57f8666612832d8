// BO mappings as a checkpoint likes them least: split by mprotect, and interleaved with a regular
// file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "holding.h"
#include "kfd.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

// Below 2 MiB ROCr packs several allocations into one BO.
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;
constexpr std::size_t kFileBytes = 64 * 1024;
constexpr std::size_t kPieces = 3;

class HeldSplit : public Holding {
 public:
  HeldSplit(const Runtime& runtime, Dma& dma, const Pattern& pattern, const std::string& path)
      : dma_(dma), pattern_(pattern), path_(path) {
    file_ = make_file();
    buffers_.reserve(2);
    buffers_.emplace_back(runtime, runtime.vram(), kBufferBytes);
    map_file_above_first();
    buffers_.emplace_back(runtime, runtime.vram(), kBufferBytes);
    for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
      dma_.fill(buffers_[i].bytes(), pattern_, kSplitBuffers + i);
    }
    split_first();
    check_layout();
  }

  ~HeldSplit() override { unlink(path_.c_str()); }

  const char* name() const override { return "split"; }

  void check() override {
    check_layout();
    pattern_.check("mapped file", kSplitFile, 0, mapping_.bytes());
    for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
      dma_.verify(buffers_[i].bytes(), pattern_, kSplitBuffers + i);
    }
  }

 private:
  kfdcp::UniqueFd make_file() const {
    kfdcp::UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd) throw io_error(path_);
    std::vector<std::byte> content(kFileBytes);
    pattern_.write(kSplitFile, 0, content);
    if (write(fd.get(), content.data(), kFileBytes) != static_cast<ssize_t>(kFileBytes)) {
      throw io_error(path_);
    }
    return fd;
  }

  std::uintptr_t first() const {
    return reinterpret_cast<std::uintptr_t>(buffers_[0].bytes().data());
  }

  void map_file_above_first();
  void split_first() const;
  void check_layout() const;

  Dma& dma_;
  const Pattern& pattern_;
  const std::string path_;
  kfdcp::UniqueFd file_;
  std::vector<PoolBuffer> buffers_;
  kfdcp::Mapping mapping_;
};

void HeldSplit::map_file_above_first() {
  // Whatever lies around the first BO, the nearest hole above or below it puts the file next to it.
  std::uintptr_t hole = 0, best = UINTPTR_MAX, previous_end = 0x10000;
  for (const MapEntry& entry : self_maps()) {
    if (entry.begin >= previous_end + kFileBytes) {
      const std::uintptr_t low = previous_end, high = entry.begin - kFileBytes;
      const std::uintptr_t at = high < first() ? high : low;
      const std::uintptr_t distance = at > first() ? at - first() : first() - at;
      if (distance < best) best = distance, hole = at;
    }
    previous_end = entry.end;
  }
  void* at = mmap(reinterpret_cast<void*>(hole), kFileBytes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_FIXED_NOREPLACE, file_.get(), 0);
  if (at == MAP_FAILED) throw io_error(path_);
  mapping_ = kfdcp::Mapping(at, kFileBytes);
}

void HeldSplit::split_first() const {
  const auto maps = self_maps();
  const auto entry = std::ranges::find_if(
      maps, [this](const MapEntry& e) { return e.begin <= first() && first() < e.end; });
  if (entry == maps.end() || !is_render_map(*entry)) {
    throw Error(ErrorCode::unsupported, "split: VRAM is not mapped through a render node");
  }
  void* middle = buffers_[0].bytes().data() + kBufferBytes / 2;
  // Any other protection will do. The BO stays what it is, and the GPU does not care.
  if (mprotect(middle, kFileBytes, entry->readable ? PROT_NONE : PROT_READ) != 0) {
    throw io_error("mprotect of a BO");
  }
}

void HeldSplit::check_layout() const {
  std::size_t pieces = 0;
  std::vector<char> kinds;  // 'b'(o) and 'f'(ile) by rising address
  for (const MapEntry& entry : self_maps()) {
    if (entry.begin < first() + kBufferBytes && entry.end > first()) ++pieces;
    if (is_render_map(entry)) kinds.push_back('b');
    if (entry.path == path_) kinds.push_back('f');
  }
  if (pieces != kPieces) {
    throw Error(ErrorCode::corrupt,
                "split: the BO has " + std::to_string(pieces) + " mappings, expected 3");
  }
  const auto file = std::ranges::find(kinds, 'f');
  if (file == kinds.begin() || file == kinds.end() || file + 1 == kinds.end()) {
    throw Error(ErrorCode::corrupt, "split: the mapped file is not between BOs");
  }
}

}  // namespace

std::unique_ptr<Holding> hold_split(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const std::string& path) {
  return std::make_unique<HeldSplit>(runtime, dma, pattern, path);
}

}  // namespace lab
