// Memory of every kind that a GPU works on.
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "bare_held.h"
#include "bare_queue.h"
#include "core/os/error.h"

namespace lab {
namespace {

using kfdcp::io_error;

constexpr std::size_t kBytes = 300 * 1024;  // no multiple of a large page
constexpr std::uint32_t kVram = KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT;
constexpr char kShmFile[] = "/dev/shm/kfd-worker";

/// One kind. `user` owns the pages of a userptr.
struct Piece {
  std::string name;
  kfdcp::Mapping user;
  BareBuffer buffer;
  bool visible = true;   // to the CPU
  bool writable = true;  // by the GPU
};

kfdcp::Mapping anonymous(int flags) {
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);
  if (base == MAP_FAILED) throw io_error("host memory");
  return {base, kBytes};
}

kfdcp::Mapping pinned() {
  kfdcp::Mapping mapping = anonymous(MAP_PRIVATE);
  if (mlock(mapping.data(), mapping.size()) != 0) throw io_error("mlock");
  return mapping;
}

kfdcp::Mapping shm_file() {
  const kfdcp::UniqueFd fd(open(kShmFile, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd || ftruncate(fd.get(), kBytes) != 0) throw io_error(kShmFile);
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw io_error(kShmFile);
  return {base, kBytes};
}

class HeldMemory : public Holding {
 public:
  HeldMemory(const BareGpu& gpu, const Pattern& pattern, std::chrono::milliseconds limit)
      : gpu_(gpu),
        pattern_(pattern),
        limit_(limit),
        queue_(gpu),
        staging_(gpu, kGtt, kBytes),
        done_(gpu, kGtt, 4096) {
    add("VRAM", kVram | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC);
    const BareBuffer hole(gpu, kVram, kBytes);  // its handle is free afterwards
    add("VRAM that the CPU does not see", kVram, false);
    add("GTT", kGtt);
    add("coherent GTT", kGtt | KFD_IOC_ALLOC_MEM_FLAGS_COHERENT | KFD_IOC_ALLOC_MEM_FLAGS_UNCACHED |
                            KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE);
    add("user memory", anonymous(MAP_PRIVATE));
    add("user memory that the GPU only reads", anonymous(MAP_PRIVATE), false);
    add("user memory at another address", anonymous(MAP_PRIVATE), true, true);
    add("pinned user memory", pinned());
    add("shared user memory", anonymous(MAP_SHARED));
    add("user memory in /dev/shm", shm_file());
    for (std::size_t i = 0; i < pieces_.size(); ++i) write(i);
  }
  ~HeldMemory() override { unlink(kShmFile); }

  const char* name() const override { return "memory"; }

  void check() override {
    for (std::size_t i = 0; i < pieces_.size(); ++i) compare(i);
    for (int by_gpu = 0; by_gpu < 2; ++by_gpu) {
      ++generation_;
      for (std::size_t i = 0; i < pieces_.size(); ++i) write(i, by_gpu != 0);
      for (std::size_t i = 0; i < pieces_.size(); ++i) compare(i);
    }
  }

 private:
  void add(const char* name, std::uint32_t flags, bool visible = true) {
    pieces_.push_back({name, {}, BareBuffer(gpu_, flags, kBytes, visible), visible, true});
  }
  void add(const char* name, kfdcp::Mapping user, bool writable = true, bool elsewhere = false) {
    BareBuffer buffer(gpu_, user.bytes(), writable, elsewhere);
    pieces_.push_back({name, std::move(user), std::move(buffer), true, writable});
  }

  std::uint32_t contents(std::size_t i) const {
    return kBareMemory + static_cast<std::uint32_t>(generation_ * pieces_.size() + i);
  }

  void copy(const BareBuffer& to, const BareBuffer& from) {
    store(*done_.words(), 0);
    queue_.copy(to.address(), from.address(), kBytes);
    queue_.fence(done_.address(), 1);
    queue_.ring_doorbell();
    wait_until("SDMA copy", limit_, [this] { return load(*done_.words()) == 1; });
  }

  /// Contents of this generation, by whoever can.
  void write(std::size_t i, bool by_gpu = true) {
    const Piece& piece = pieces_[i];
    if (piece.visible && !(by_gpu && piece.writable)) {
      pattern_.write(contents(i), 0, piece.buffer.bytes());
    } else {
      pattern_.write(contents(i), 0, staging_.bytes());
      copy(piece.buffer, staging_);
    }
  }

  void compare(std::size_t i) {
    const Piece& piece = pieces_[i];
    if (piece.visible) pattern_.check(piece.name, contents(i), 0, piece.buffer.bytes());
    // A copy that silently does nothing must not find the bytes of the copy before it.
    std::ranges::fill(staging_.bytes(), std::byte{0xee});
    copy(staging_, piece.buffer);
    pattern_.check(piece.name + ", read by the GPU", contents(i), 0, staging_.bytes());
  }

  const BareGpu& gpu_;
  const Pattern& pattern_;
  const std::chrono::milliseconds limit_;
  SdmaQueue queue_;
  BareBuffer staging_, done_;
  std::vector<Piece> pieces_;
  std::uint64_t generation_ = 0;
};

}  // namespace

std::unique_ptr<Holding> hold_memory(const BareGpu& gpu, const Pattern& pattern,
                                     std::chrono::milliseconds limit) {
  return std::make_unique<HeldMemory>(gpu, pattern, limit);
}

}  // namespace lab
