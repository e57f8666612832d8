#include "core/kfd/shared_bo.h"

#include <exception>
#include <string>
#include <vector>

#include "core/kfd/kfd.h"
#include "core/os/error.h"

namespace kfdcp {

namespace {

/// Handles that are in the way while one number is steered to, freed at the end.
class Fillers {
 public:
  explicit Fillers(int kfd_fd) : kfd_fd_(kfd_fd) {}
  ~Fillers() {
    try {
      for (const kfd::BoHandle bo : handles_) kfd::free_memory(kfd_fd_, bo);
    } catch (const std::exception&) {
      // Not reached before something else has failed: the task is killed.
    }
  }
  Fillers(const Fillers&) = delete;
  Fillers& operator=(const Fillers&) = delete;

  void add(kfd::BoHandle bo) { handles_.push_back(bo); }

 private:
  int kfd_fd_;
  std::vector<kfd::BoHandle> handles_;
};

/// KFD gives out the lowest free number, and `wanted` is free: lower ones are used up by importing
/// the same buffer again, which takes no memory.
void import_as(int kfd_fd, kfd::BoHandle wanted, std::uint64_t va, int dmabuf_fd) {
  Fillers fillers(kfd_fd);
  for (;;) {
    const kfd::BoHandle bo = kfd::import_dmabuf(kfd_fd, wanted.gpu_id, dmabuf_fd, va);
    if (bo.number == wanted.number) return;
    fillers.add(bo);
    if (bo.number > wanted.number) {
      throw Error(ErrorCode::gpu, "KFD gave a shared buffer number " + std::to_string(bo.number) +
                                      ", it was " + std::to_string(wanted.number));
    }
  }
}

}  // namespace

void exchange_bo(int kfd_fd, const kfd_criu_bo_bucket& bucket, const BlobBo& bo, int dmabuf_fd) {
  const kfd::BoHandle handle{bucket.gpu_id, bo.number};
  if (!bo.gpus.empty()) kfd::unmap_memory(kfd_fd, handle, bo.gpus);
  kfd::free_memory(kfd_fd, handle);
  import_as(kfd_fd, handle, bucket.addr, dmabuf_fd);
  if (!bo.gpus.empty()) kfd::map_memory(kfd_fd, handle, bo.gpus);
}

}  // namespace kfdcp
