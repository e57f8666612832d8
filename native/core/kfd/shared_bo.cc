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
      // Reached only after another failure: the task is killed.
    }
  }
  Fillers(const Fillers&) = delete;
  Fillers& operator=(const Fillers&) = delete;

  void add(kfd::BoHandle bo) { handles_.push_back(bo); }

 private:
  int kfd_fd_;
  std::vector<kfd::BoHandle> handles_;
};

/// KFD gives out the lowest free number, and `wanted` is free: pages use up the lower ones. They
/// may not be imports of the same buffer. All imports of a buffer on one GPU have one GEM handle in
/// KFD's only DRM file of that GPU, and the first one to be freed deletes it for all
/// (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_free_memory_of_gpu@6.12.117 and @7.3.4).
void import_as(int kfd_fd, kfd::BoHandle wanted, std::uint64_t va, int dmabuf_fd) {
  Fillers fillers(kfd_fd);
  kfd::BoHandle next = kfd::allocate_page(kfd_fd, wanted.gpu_id, va);
  while (next.number < wanted.number) {
    fillers.add(next);
    next = kfd::allocate_page(kfd_fd, wanted.gpu_id, va);
  }
  kfd::free_memory(kfd_fd, next);
  if (next.number == wanted.number) {
    next = kfd::import_dmabuf(kfd_fd, wanted.gpu_id, dmabuf_fd, va);
    if (next.number == wanted.number) return;
    fillers.add(next);
  }
  throw Error(ErrorCode::gpu, "KFD gave a shared buffer number " + std::to_string(next.number) +
                                  ", it was " + std::to_string(wanted.number));
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
