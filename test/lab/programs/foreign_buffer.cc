#include "foreign_buffer.h"

#include <hsa/hsa_ext_amd.h>

namespace lab {

ImportedBuffer::ImportedBuffer(const Runtime& runtime, int dmabuf) {
  hsa_agent_t gpu = runtime.gpu();
  check_hsa(hsa_amd_interop_map_buffer(1, &gpu, dmabuf, 0, &size_, &base_, nullptr, nullptr),
            "importing a dma-buf");
}

ImportedBuffer::~ImportedBuffer() { hsa_amd_interop_unmap_buffer(base_); }

}  // namespace lab
