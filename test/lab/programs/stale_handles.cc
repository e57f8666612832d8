// Somebody else on the GPU, who makes KFD mix up buffers. usage: stale-handles COUNT; a line of
// stdin ends each step, and a word of stdout says that it is done.
//
// KFD's GEM handles are of one file for all processes of a GPU. A process that imports a buffer of
// its own gets the handle that the buffer has, and each of the two BOs deletes it at its end
// (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_gpuvm_free_memory_of_gpu@6.12.117).
//   free:  COUNT handles are deleted, and their buffers are still there. New buffers of others get
//          their numbers, because the lowest free number is next.
//   taken: the buffers have deleted those numbers once more, and COUNT new buffers have them. A BO
//          of the others that is exported now gives one of these.
#include <linux/kfd_ioctl.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "bare_gpu.h"
#include "core/os/error.h"
#include "core/os/fd.h"

namespace {

constexpr std::size_t kOldBytes = 4096;
constexpr std::size_t kNewBytes = 1u << 20;

kfdcp::UniqueFd exported(const lab::BareGpu& gpu, const lab::BareBuffer& buffer) {
  kfd_ioctl_export_dmabuf_args args{};
  args.handle = buffer.handle();
  gpu.call(AMDKFD_IOC_EXPORT_DMABUF, &args, "exporting a buffer");
  return kfdcp::UniqueFd(static_cast<int>(args.dmabuf_fd));
}

/// Leaves `buffer` with a handle that is free.
void free_handle(const lab::BareGpu& gpu, const lab::BareBuffer& buffer) {
  const kfdcp::UniqueFd dmabuf = exported(gpu, buffer);
  kfd_ioctl_import_dmabuf_args import{};
  import.va_addr = buffer.address();
  import.gpu_id = gpu.id();
  import.dmabuf_fd = static_cast<std::uint32_t>(dmabuf.get());
  gpu.call(AMDKFD_IOC_IMPORT_DMABUF, &import, "importing a buffer");
  kfd_ioctl_free_memory_of_gpu_args free{import.handle};
  gpu.call(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free, "freeing an import");
}

std::vector<lab::BareBuffer> buffers(const lab::BareGpu& gpu, std::size_t count,
                                     std::size_t bytes) {
  std::vector<lab::BareBuffer> made;
  for (std::size_t i = 0; i < count; ++i) {
    made.emplace_back(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, bytes);
  }
  return made;
}

void step(const char* done) {
  std::cout << done << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: stale-handles COUNT\n");
    return 2;
  }
  try {
    const std::size_t count = std::strtoul(argv[1], nullptr, 10);
    const lab::BareGpu gpu;
    std::vector<lab::BareBuffer> old = buffers(gpu, count, kOldBytes);
    for (const lab::BareBuffer& buffer : old) free_handle(gpu, buffer);
    step("free");
    old.clear();
    const std::vector<lab::BareBuffer> taken = buffers(gpu, count, kNewBytes);
    step("taken");
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "stale-handles: %s\n", error.what());
    return 1;
  }
}
