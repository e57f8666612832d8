#include "runtime.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

struct Agents {
  std::vector<hsa_agent_t> gpus;
  std::optional<hsa_agent_t> cpu;
};

hsa_status_t note_agent(hsa_agent_t agent, void* data) {
  auto& found = *static_cast<Agents*>(data);
  hsa_device_type_t type{};
  const hsa_status_t status = hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type);
  if (status != HSA_STATUS_SUCCESS) return status;
  if (type == HSA_DEVICE_TYPE_GPU) found.gpus.push_back(agent);
  if (type == HSA_DEVICE_TYPE_CPU && !found.cpu) found.cpu = agent;
  return HSA_STATUS_SUCCESS;
}

struct PoolSearch {
  std::uint32_t flag;  // of hsa_amd_memory_pool_global_flag_t
  std::optional<hsa_amd_memory_pool_t> pool;
};

hsa_status_t note_pool(hsa_amd_memory_pool_t pool, void* data) {
  auto& search = *static_cast<PoolSearch*>(data);
  hsa_amd_segment_t segment{};
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  if (segment != HSA_AMD_SEGMENT_GLOBAL || search.pool) return HSA_STATUS_SUCCESS;
  std::uint32_t flags = 0;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  bool allocatable = false;
  hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allocatable);
  if (allocatable && (flags & search.flag) != 0) search.pool = pool;
  return HSA_STATUS_SUCCESS;
}

hsa_amd_memory_pool_t find_pool(hsa_agent_t agent, std::uint32_t flag, const char* name) {
  PoolSearch search{flag, {}};
  check_hsa(hsa_amd_agent_iterate_memory_pools(agent, note_pool, &search), name);
  if (!search.pool) throw Error(ErrorCode::gpu, std::string(name) + ": no such memory pool");
  return *search.pool;
}

}  // namespace

void check_hsa(hsa_status_t status, const std::string& what) {
  if (status == HSA_STATUS_SUCCESS) return;
  const char* text = nullptr;
  if (hsa_status_string(status, &text) != HSA_STATUS_SUCCESS || text == nullptr) text = "unknown";
  throw Error(ErrorCode::gpu, what + ": " + text);
}

Runtime::Runtime(std::size_t gpu) {
  {
    const Watchdog watchdog("hsa_init");
    check_hsa(hsa_init(), "hsa_init");
  }
  try {
    Agents found;
    check_hsa(hsa_iterate_agents(note_agent, &found), "hsa_iterate_agents");
    if (found.gpus.size() <= gpu || !found.cpu) {
      throw Error(ErrorCode::gpu,
                  "ROCr: it shows " + std::to_string(found.gpus.size()) + " GPU agent(s)");
    }
    gpu_ = found.gpus[gpu];
    if (found.gpus.size() > 1) other_gpu_ = found.gpus[gpu == 0 ? 1 : 0];
    cpu_ = *found.cpu;
    vram_ = find_pool(gpu_, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, "VRAM");
    host_ = find_pool(cpu_, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED, "system memory");
  } catch (...) {
    hsa_shut_down();
    throw;
  }
}

Runtime::~Runtime() {
  const Watchdog watchdog("hsa_shut_down");
  hsa_shut_down();
}

hsa_amd_memory_pool_t Runtime::other_vram() const {
  if (!other_gpu_) throw Error(ErrorCode::gpu, "ROCr: it shows one GPU agent");
  return find_pool(*other_gpu_, HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED, "VRAM");
}

std::string Runtime::gpu_name() const {
  char name[64] = {};
  check_hsa(hsa_agent_get_info(gpu_, HSA_AGENT_INFO_NAME, name), "agent name");
  return name;
}

std::string Runtime::render_node() const {
  std::uint32_t node = 0;
  const auto attribute = static_cast<hsa_agent_info_t>(HSA_AMD_AGENT_INFO_DRIVER_NODE_ID);
  check_hsa(hsa_agent_get_info(gpu_, attribute, &node), "agent node");
  const std::string path =
      "/sys/class/kfd/kfd/topology/nodes/" + std::to_string(node) + "/properties";
  std::ifstream properties(path);
  std::string key;
  for (std::uint64_t value = 0; properties >> key >> value;) {
    if (key == "drm_render_minor") return "/dev/dri/renderD" + std::to_string(value);
  }
  throw Error(ErrorCode::gpu, path + ": no drm_render_minor");
}

PoolBuffer::PoolBuffer(const Runtime& runtime, hsa_amd_memory_pool_t pool, std::size_t size)
    : size_(size) {
  check_hsa(hsa_amd_memory_pool_allocate(pool, size, 0, &base_),
            "allocating " + std::to_string(size) + " bytes");
  const hsa_agent_t gpu = runtime.gpu();
  const hsa_status_t status = hsa_amd_agents_allow_access(1, &gpu, nullptr, base_);
  if (status == HSA_STATUS_SUCCESS) return;
  hsa_amd_memory_pool_free(base_);
  check_hsa(status, "mapping a buffer to the GPU");
}

PoolBuffer::PoolBuffer(PoolBuffer&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PoolBuffer::~PoolBuffer() {
  if (base_ != nullptr) hsa_amd_memory_pool_free(base_);
}

kfdcp::UniqueFd export_dmabuf(const PoolBuffer& buffer) {
  int fd = -1;
  std::uint64_t offset = 0;
  const auto bytes = buffer.bytes();
  check_hsa(hsa_amd_portable_export_dmabuf(bytes.data(), bytes.size(), &fd, &offset),
            "exporting a dma-buf");
  return kfdcp::UniqueFd(fd);
}

Signal::Signal(hsa_signal_value_t initial) {
  check_hsa(hsa_signal_create(initial, 0, nullptr, &signal_), "creating a signal");
}

Signal::~Signal() { hsa_signal_destroy(signal_); }

void Signal::store(hsa_signal_value_t value) { hsa_signal_store_screlease(signal_, value); }

void Signal::wait_done(const std::string& what, std::chrono::milliseconds limit) const {
  using std::chrono::microseconds, std::chrono::steady_clock;
  std::uint64_t ticks_per_second = 0;
  check_hsa(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &ticks_per_second), "clock");
  // Short slices instead of one deadline: a checkpoint stops the process for any length of time,
  // and a restore may even move the clock back.
  constexpr microseconds kSlice{200'000};
  microseconds waited{0};
  while (waited < limit) {
    const auto begin = steady_clock::now();
    const hsa_signal_value_t value = hsa_signal_wait_scacquire(
        signal_, HSA_SIGNAL_CONDITION_LT, 1, ticks_per_second / 5, HSA_WAIT_STATE_BLOCKED);
    if (value < 1) return;
    throw_if_stopping(what);
    const auto spent = std::chrono::duration_cast<microseconds>(steady_clock::now() - begin);
    waited += std::clamp(spent, microseconds{0}, kSlice);
  }
  throw Error(ErrorCode::gpu,
              what + ": no answer from the GPU in " + std::to_string(limit.count()) + " ms");
}

}  // namespace lab
