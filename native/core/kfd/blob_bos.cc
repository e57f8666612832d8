#include "core/kfd/blob_bos.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>

#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::size_t kProcessBytes = 8;  // struct kfd_criu_process_priv_data
constexpr std::size_t kDeviceBytes = 8;   // struct kfd_criu_device_priv_data
constexpr std::size_t kMaxGpus = 64;      // MAX_GPU_INSTANCE

/// struct kfd_criu_bo_priv_data
struct BoPriv {
  std::uint64_t user_addr;
  std::uint32_t idr_handle;
  std::uint32_t mapped_gpuids[kMaxGpus];
  std::uint32_t padding;
};
static_assert(sizeof(BoPriv) == 272);

[[noreturn]] void another_layout(const std::string& why) {
  throw Error(ErrorCode::unsupported,
              "KFD state: its private data has a layout that is not known here (" + why + ")");
}

/// `known`: the ids of the process's GPUs, in order.
BlobBo read(const BoPriv& priv, const std::vector<std::uint32_t>& known) {
  if (priv.idr_handle > std::numeric_limits<std::int32_t>::max()) another_layout("handle");
  BlobBo bo{priv.idr_handle, {}};
  for (const std::uint32_t gpu : priv.mapped_gpuids) {
    if (gpu == 0) break;
    if (!std::ranges::binary_search(known, gpu)) another_layout("GPU of a mapping");
    bo.gpus.push_back(gpu);
  }
  if (bo.gpus.size() > known.size()) another_layout("mapped GPUs");
  return bo;
}

}  // namespace

std::vector<BlobBo> blob_bos(const ProcessState& state) {
  // Counts are 32-bit, records small: nothing overflows.
  const std::size_t begin = kProcessBytes + kDeviceBytes * state.devices.size();
  if (state.priv.size() < begin + sizeof(BoPriv) * state.bos.size()) another_layout("size");
  std::vector<std::uint32_t> known;
  for (const kfd_criu_device_bucket& device : state.devices) known.push_back(device.user_gpu_id);
  std::ranges::sort(known);
  std::vector<BlobBo> bos;
  bos.reserve(state.bos.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> handles;
  for (std::size_t i = 0; i < state.bos.size(); ++i) {
    BoPriv priv;
    std::memcpy(&priv, state.priv.data() + begin + i * sizeof priv, sizeof priv);
    bos.push_back(read(priv, known));
    handles.emplace_back(state.bos[i].gpu_id, priv.idr_handle);
  }
  std::ranges::sort(handles);
  if (std::ranges::adjacent_find(handles) != handles.end()) another_layout("handles");
  return bos;
}

}  // namespace kfdcp
