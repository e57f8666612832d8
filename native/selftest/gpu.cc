#include "selftest/gpu.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>

#include <fstream>
#include <utility>

#include "core/kfd/kfd.h"
#include "core/os/device_call.h"
#include "core/os/error.h"

namespace kfdcp::selftest {
namespace {

constexpr std::uint64_t kGfx9 = 90000;
constexpr std::uint64_t kSvmCapability = 0x08000000;  // HSA_CAP_SVMAPI_SUPPORTED of kfd_sysfs.h
constexpr int kMostNodes = 256;

UniqueFd open_device(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw io_error(path);
  return fd;
}

}  // namespace

Kfd::Kfd(Places places) : places_(std::move(places)), fd_(open_device(places_.kfd)) {}

Gpu::Gpu(const Kfd& kfd, unsigned minor)
    : kfd_(kfd), minor_(minor), render_(open_device(kfd.places().render + std::to_string(minor))) {
  find_node();
  if (property("gfx_target_version") < kGfx9) {
    throw Error(ErrorCode::unsupported, name() + ": this program knows gfx9 and later GPUs alone");
  }
  kfd_ioctl_acquire_vm_args acquire{static_cast<std::uint32_t>(render_.get()), id_};
  must_call(kfd_.fd(), AMDKFD_IOC_ACQUIRE_VM, &acquire, name() + ": KFD ACQUIRE_VM");

  // The way of libhsakmt: a BO for the doorbells, over which they are mapped once there is a queue.
  doorbells_ = reserve(kDoorbellBytes);
  kfd_ioctl_alloc_memory_of_gpu_args doorbells{};
  doorbells.va_addr = reinterpret_cast<std::uintptr_t>(doorbells_.data());
  doorbells.size = kDoorbellBytes;
  doorbells.gpu_id = id_;
  doorbells.flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  must_call(kfd_.fd(), AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &doorbells,
            name() + ": KFD ALLOC_MEMORY of doorbells");
  doorbell_bo_ = static_cast<std::uint32_t>(doorbells.handle);
}

Gpu::~Gpu() {
  try {
    kfd::free_memory(kfd_.fd(), {id_, doorbell_bo_});
  } catch (const Error&) {
    // The end of the process frees it.
  }
}

void Gpu::find_node() {
  for (int node = 0; node < kMostNodes; ++node) {
    const std::string folder = kfd_.places().nodes + "/" + std::to_string(node);
    std::uint32_t id = 0;
    if (!(std::ifstream(folder + "/gpu_id") >> id) || id == 0) continue;  // a CPU, or not ours
    std::ifstream file(folder + "/properties");
    std::map<std::string, std::uint64_t> properties;
    std::string key;
    for (std::uint64_t value = 0; file >> key >> value;) properties[key] = value;
    if (properties["drm_render_minor"] != minor_) continue;
    id_ = id;
    properties_ = std::move(properties);
    return;
  }
  throw Error(ErrorCode::gpu, name() + ": no GPU of KFD in " + kfd_.places().nodes);
}

std::uint64_t Gpu::property(const std::string& name) const {
  const auto found = properties_.find(name);
  return found == properties_.end() ? 0 : found->second;
}

bool Gpu::has_svm() const { return (property("capability") & kSvmCapability) != 0; }

std::uint64_t& Gpu::doorbell(std::uint64_t offset) {
  const std::uint64_t at = offset % kDoorbellBytes;
  if (!doorbells_mapped_) {
    map_over(doorbells_, PROT_READ | PROT_WRITE, kfd_.fd(), offset - at);
    doorbells_mapped_ = true;
  }
  return *reinterpret_cast<std::uint64_t*>(doorbells_.data() + at);
}

Mapping reserve(std::size_t bytes) {
  void* base =
      ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw io_error("reserving addresses");
  return {base, bytes};
}

void map_over(const Mapping& reserved, int protection, int fd, std::uint64_t offset) {
  if (::mmap(reserved.data(), reserved.size(), protection, MAP_SHARED | MAP_FIXED, fd,
             static_cast<off_t>(offset)) == MAP_FAILED) {
    throw io_error("mapping GPU memory");
  }
}

}  // namespace kfdcp::selftest
