#include "foreign_buffer.h"

#include <hsa/hsa_ext_amd.h>

namespace lab {

ImportedBuffer::ImportedBuffer(const Runtime& runtime, int dmabuf) {
  hsa_agent_t gpu = runtime.gpu();
  check_hsa(hsa_amd_interop_map_buffer(1, &gpu, dmabuf, 0, &size_, &base_, nullptr, nullptr),
            "importing a dma-buf");
}

ImportedBuffer::~ImportedBuffer() { hsa_amd_interop_unmap_buffer(base_); }

AttachedBuffer::AttachedBuffer(const hsa_amd_ipc_memory_t& handle, std::size_t size) : size_(size) {
  check_hsa(hsa_amd_ipc_memory_attach(&handle, size, 0, nullptr, &base_),
            "attaching memory by ROCr's IPC");
}

AttachedBuffer::~AttachedBuffer() { hsa_amd_ipc_memory_detach(base_); }

hsa_amd_ipc_memory_t ipc_handle(const PoolBuffer& buffer) {
  hsa_amd_ipc_memory_t handle{};
  check_hsa(hsa_amd_ipc_memory_create(buffer.bytes().data(), buffer.bytes().size(), &handle),
            "sharing memory by ROCr's IPC");
  return handle;
}

}  // namespace lab
