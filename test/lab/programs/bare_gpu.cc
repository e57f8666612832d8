#include "bare_gpu.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>
#include <sys/ioctl.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "core/os/error.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

constexpr char kNodes[] = "/sys/class/kfd/kfd/topology/nodes/";

kfdcp::UniqueFd open_device(const std::string& path) {
  kfdcp::UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!fd) throw io_error(path);
  return fd;
}

/// Addresses that nothing else gets.
kfdcp::Mapping reserve(std::size_t size) {
  void* base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw io_error("reserving addresses");
  return {base, size};
}

std::uint64_t address_of(const kfdcp::Mapping& mapping) {
  return reinterpret_cast<std::uintptr_t>(mapping.data());
}

void map_over(const kfdcp::Mapping& reserved, int protection, int fd, std::uint64_t offset) {
  if (mmap(reserved.data(), reserved.size(), protection, MAP_SHARED | MAP_FIXED, fd,
           static_cast<off_t>(offset)) == MAP_FAILED) {
    throw io_error("mapping GPU memory");
  }
}

template <typename Word>
Word load_word(const Word& word) {
  return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_acquire);
}

}  // namespace

BareGpu::BareGpu() : kfd_(open_device("/dev/kfd")) {
  for (int node = 0; id_ == 0; ++node) {
    node_ = kNodes + std::to_string(node);
    std::ifstream file(node_ + "/gpu_id");
    if (!file) throw Error(ErrorCode::gpu, std::string(kNodes) + ": no GPU");
    file >> id_;
  }
  render_ = open_device("/dev/dri/renderD" + std::to_string(property("drm_render_minor")));
  kfd_ioctl_acquire_vm_args acquire{static_cast<std::uint32_t>(render_.get()), id_};
  call(AMDKFD_IOC_ACQUIRE_VM, &acquire, "acquiring a VM");

  // The way of libhsakmt: a BO for the doorbells, over which they are mapped once there is a queue.
  doorbells_ = reserve(kDoorbellBytes);
  kfd_ioctl_alloc_memory_of_gpu_args doorbells{};
  doorbells.va_addr = reinterpret_cast<std::uintptr_t>(doorbells_.data());
  doorbells.size = kDoorbellBytes;
  doorbells.gpu_id = id_;
  doorbells.flags = KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
  call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &doorbells, "allocating doorbells");
  doorbell_handle_ = doorbells.handle;
}

BareGpu::~BareGpu() {
  kfd_ioctl_free_memory_of_gpu_args free{doorbell_handle_};
  attempt(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free);
}

std::uint64_t& BareGpu::doorbell(std::uint64_t offset) const {
  const std::uint64_t at = offset % kDoorbellBytes;
  if (!doorbells_mapped_) {
    map_over(doorbells_, PROT_READ | PROT_WRITE, kfd_.get(), offset - at);
    doorbells_mapped_ = true;
  }
  return *reinterpret_cast<std::uint64_t*>(doorbells_.data() + at);
}

int BareGpu::attempt(unsigned long request, void* arguments) const {
  return ioctl(kfd_.get(), request, arguments) == 0 ? 0 : errno;
}

void BareGpu::call(unsigned long request, void* arguments, const char* what) const {
  const int error = attempt(request, arguments);
  if (error == 0) return;
  throw Error(ErrorCode::gpu, std::string(what) + ": " + std::strerror(error), error);
}

std::uint64_t BareGpu::property(const std::string& name) const {
  std::ifstream file(node_ + "/properties");
  std::string key;
  for (std::uint64_t value = 0; file >> key >> value;) {
    if (key == name) return value;
  }
  throw Error(ErrorCode::gpu, node_ + "/properties: no " + name);
}

BareBuffer::BareBuffer(const BareGpu& gpu, std::uint32_t flags, std::size_t size, bool visible)
    : gpu_(&gpu), mapping_(reserve(size)) {
  bytes_ = mapping_.bytes();
  address_ = address_of(mapping_);
  const std::uint64_t offset = allocate(flags | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE, 0);
  map_over(mapping_, visible ? PROT_READ | PROT_WRITE : PROT_NONE, gpu.render(), offset);
}

BareBuffer::BareBuffer(const BareGpu& gpu, std::span<std::byte> user, bool writable, bool elsewhere)
    : gpu_(&gpu), bytes_(user), address_(reinterpret_cast<std::uintptr_t>(user.data())) {
  const std::uint64_t pages = address_;
  if (elsewhere) {
    mapping_ = reserve(user.size());
    address_ = address_of(mapping_);
  }
  allocate(KFD_IOC_ALLOC_MEM_FLAGS_USERPTR | (writable ? KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE : 0),
           pages);
}

BareBuffer::BareBuffer(BareBuffer&& other) noexcept
    : gpu_(std::exchange(other.gpu_, nullptr)),
      bytes_(other.bytes_),
      mapping_(std::move(other.mapping_)),
      address_(other.address_),
      handle_(other.handle_) {}

BareBuffer::~BareBuffer() {
  if (gpu_ == nullptr) return;
  std::uint32_t id = gpu_->id();
  kfd_ioctl_unmap_memory_from_gpu_args unmap{};
  unmap.handle = handle_;
  unmap.device_ids_array_ptr = reinterpret_cast<std::uintptr_t>(&id);
  unmap.n_devices = 1;
  gpu_->attempt(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU, &unmap);
  kfd_ioctl_free_memory_of_gpu_args free{handle_};
  gpu_->attempt(AMDKFD_IOC_FREE_MEMORY_OF_GPU, &free);
}

std::uint64_t BareBuffer::allocate(std::uint32_t flags, std::uint64_t user) {
  kfd_ioctl_alloc_memory_of_gpu_args arguments{};
  arguments.va_addr = address();
  arguments.size = bytes_.size();
  arguments.mmap_offset = user;
  arguments.gpu_id = gpu_->id();
  arguments.flags = flags;
  gpu_->call(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &arguments, "allocating GPU memory");
  handle_ = arguments.handle;
  std::uint32_t id = gpu_->id();
  kfd_ioctl_map_memory_to_gpu_args map{};
  map.handle = handle_;
  map.device_ids_array_ptr = reinterpret_cast<std::uintptr_t>(&id);
  map.n_devices = 1;
  gpu_->call(AMDKFD_IOC_MAP_MEMORY_TO_GPU, &map, "mapping memory to the GPU");
  return arguments.mmap_offset;
}

std::uint32_t load(const std::uint32_t& word) { return load_word(word); }
std::uint64_t load(const std::uint64_t& word) { return load_word(word); }

void store(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

void wait_until(const std::string& what, std::chrono::milliseconds limit,
                const std::function<bool()>& done) {
  // Counted in slices, not by a clock: a checkpoint stops the process for any length of time.
  constexpr std::chrono::milliseconds kSlice{2};
  for (std::chrono::milliseconds waited{0}; !done(); waited += kSlice) {
    throw_if_stopping(what);
    if (waited >= limit) {
      throw Error(ErrorCode::gpu,
                  what + ": no answer from the GPU in " + std::to_string(limit.count()) + " ms");
    }
    std::this_thread::sleep_for(kSlice);
  }
}

void expect(const std::string& what, std::uint64_t value, std::uint64_t expected) {
  if (value == expected) return;
  throw Error(ErrorCode::corrupt,
              what + ": is " + std::to_string(value) + ", expected " + std::to_string(expected));
}

}  // namespace lab
