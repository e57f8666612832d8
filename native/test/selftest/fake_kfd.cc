#include "test/selftest/fake_kfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kRenderBytes = std::uint64_t{1} << 32;  // sparse
constexpr std::uint32_t kFirstId = 5000;

/// As newer headers of the kernel have it: AMDKFD_IOC_EXPORT_DMABUF.
constexpr unsigned kExportDmabuf = 0x24;
struct ExportArguments {
  std::uint64_t handle;
  std::uint32_t flags, dmabuf_fd;
};

void make_file(const std::string& path, std::uint64_t bytes) {
  std::ofstream(path).close();
  std::filesystem::resize_file(path, bytes);
}

}  // namespace

FakeKfd::FakeKfd(const std::string& folder, unsigned gpus, bool svm)
    : folder_(folder),
      made_by_(::getpid()),
      kernel_([this](int fd, unsigned long request, void* argument) {
        return -answer(fd, request, argument);
      }) {
  make_file(folder_ + "/kfd", 1 << 20);
  for (unsigned i = 0; i < gpus; ++i) {
    make_file(render_of(kFirstId + i), kRenderBytes);
    const std::string node = folder_ + "/nodes/" + std::to_string(i + 1);
    std::filesystem::create_directories(node);
    std::ofstream(node + "/gpu_id") << kFirstId + i << "\n";
    std::ofstream(node + "/properties")
        << "gfx_target_version 90010\ndrm_render_minor " << kFirstMinor + i
        << "\nsimd_count 32\nsimd_per_cu 4\narray_count 4\nsimd_arrays_per_engine 1\nnum_xcc 1\n"
        << "ctl_stack_size 8192\ncwsr_size 65536\ncapability " << (svm ? 0x08000000 : 0) << "\n";
  }
  std::filesystem::create_directories(folder_ + "/nodes/0");
  std::ofstream(folder_ + "/nodes/0/gpu_id") << "0\n";
}

FakeKfd::~FakeKfd() = default;

selftest::Places FakeKfd::places() const {
  return {folder_ + "/kfd", folder_ + "/renderD", folder_ + "/nodes"};
}

std::string FakeKfd::render_of(std::uint32_t gpu) const {
  return folder_ + "/renderD" + std::to_string(kFirstMinor + gpu - kFirstId);
}

void FakeKfd::set_faults(const GpuFaults& faults) {
  const std::lock_guard lock(mutex_);
  faults_ = faults;
}

void FakeKfd::pause(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
}

void FakeKfd::raise_all() {
  const std::lock_guard lock(mutex_);
  for (auto& [id, event] : events_) event.set = true;
  raised_.notify_all();
}

void FakeKfd::forget_svm() {
  const std::lock_guard lock(mutex_);
  svm_.clear();
}

void FakeKfd::harm(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (auto& [handle, bo] : bos_) {
    if (bo.bytes == bytes) bo.base[bytes / 2] ^= std::byte{16};
  }
}

FakeKfd::Counts FakeKfd::counts() {
  const std::lock_guard lock(mutex_);
  return {bos_.size(), queues_.size(), events_.size()};
}

std::vector<std::string> FakeKfd::problems() {
  const std::lock_guard lock(mutex_);
  return problems_;
}

std::byte* FakeKfd::translate(std::uint64_t va, std::size_t bytes) {
  for (auto& [handle, bo] : bos_) {
    if (va >= bo.va && va + bytes <= bo.va + bo.bytes) return bo.base + (va - bo.va);
  }
  for (const auto& [start, range] : svm_) {
    if (va >= start && va + bytes <= start + range.first) {
      return reinterpret_cast<std::byte*>(va);
    }
  }
  return nullptr;
}

int FakeKfd::answer(int, unsigned long request, void* argument) {
  const auto number = _IOC_NR(request);
  if (number == _IOC_NR(AMDKFD_IOC_WAIT_EVENTS)) {
    return wait(*static_cast<kfd_ioctl_wait_events_args*>(argument));
  }
  const std::lock_guard lock(mutex_);
  if (number == _IOC_NR(AMDKFD_IOC_ACQUIRE_VM)) return 0;
  if (number == _IOC_NR(AMDKFD_IOC_SVM)) return svm_call(request, argument);
  if (number == _IOC_NR(AMDKFD_IOC_CREATE_QUEUE)) {
    auto& args = *static_cast<kfd_ioctl_create_queue_args*>(argument);
    args.queue_id = static_cast<std::uint32_t>(queues_.empty() ? 0 : queues_.rbegin()->first + 1);
    args.doorbell_offset = args.queue_id * 8;
    queues_[args.queue_id] = {args, 0};
    if (!engine_.joinable()) {
      engine_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
    }
    return 0;
  }
  if (number == _IOC_NR(AMDKFD_IOC_DESTROY_QUEUE)) {
    return queues_.erase(static_cast<kfd_ioctl_destroy_queue_args*>(argument)->queue_id) ? 0
                                                                                         : EINVAL;
  }
  if (const int result = event_call(request, argument); result != ENOTTY) return result;
  if (const int result = share_call(request, argument); result != ENOTTY) return result;
  return memory_call(request, argument);
}

int FakeKfd::add_bo(std::uint64_t va, std::uint64_t bytes, std::uint64_t offset, std::byte* user,
                    std::uint32_t gpu, __u64& handle) {
  Bo bo{va, bytes, offset, {}, user};
  if (user == nullptr) {
    const UniqueFd file(::open(render_of(gpu).c_str(), O_RDWR | O_CLOEXEC));
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                        static_cast<off_t>(offset));
    if (base == MAP_FAILED) return errno;
    bo.mapping = Mapping(base, bytes);
    bo.base = bo.mapping.data();
  }
  std::uint32_t number = 0;
  while (bos_.contains(std::uint64_t{gpu} << 32 | number)) ++number;
  handle = std::uint64_t{gpu} << 32 | number;
  bos_.emplace(handle, std::move(bo));
  return 0;
}

int FakeKfd::memory_call(unsigned long request, void* argument) {
  switch (_IOC_NR(request)) {
    case _IOC_NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU): {
      auto& args = *static_cast<kfd_ioctl_alloc_memory_of_gpu_args*>(argument);
      if (args.va_addr % 4096 != 0 || args.size % 4096 != 0 || args.size == 0) return EINVAL;
      std::byte* user = nullptr;
      if ((args.flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0)
        user = test::at<std::byte>(args.mmap_offset);
      // A child must not get the same memory.
      const std::uint64_t offset = next_offset_ + (::getpid() == made_by_ ? 0 : kRenderBytes / 2);
      if (user == nullptr) next_offset_ += args.size;
      args.mmap_offset = offset;
      return add_bo(args.va_addr, args.size, offset, user, args.gpu_id, args.handle);
    }
    case _IOC_NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU):
      return bos_.erase(static_cast<kfd_ioctl_free_memory_of_gpu_args*>(argument)->handle) ? 0
                                                                                           : EINVAL;
    case _IOC_NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU):
    case _IOC_NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU):
      return 0;
    default:
      problems_.push_back("unknown call " + std::to_string(_IOC_NR(request)));
      return ENOTTY;
  }
}

/// The dma-buf of a BO is a file that says where it is in the render node's.
int FakeKfd::share_call(unsigned long request, void* argument) {
  if (_IOC_NR(request) == kExportDmabuf) {
    auto& args = *static_cast<ExportArguments*>(argument);
    const auto found = bos_.find(args.handle);
    if (found == bos_.end()) return EINVAL;
    const int fd = ::memfd_create("dmabuf", MFD_CLOEXEC);
    const std::uint64_t place[2] = {found->second.offset, found->second.bytes};
    if (::pwrite(fd, place, sizeof place, 0) != sizeof place) return EIO;
    args.dmabuf_fd = static_cast<std::uint32_t>(fd);
    return 0;
  }
  if (_IOC_NR(request) == _IOC_NR(AMDKFD_IOC_IMPORT_DMABUF)) {
    auto& args = *static_cast<kfd_ioctl_import_dmabuf_args*>(argument);
    std::uint64_t place[2];
    if (::pread(static_cast<int>(args.dmabuf_fd), place, sizeof place, 0) != sizeof place) {
      return EINVAL;
    }
    return add_bo(args.va_addr, place[1], place[0], nullptr, args.gpu_id, args.handle);
  }
  return ENOTTY;
}

int FakeKfd::event_call(unsigned long request, void* argument) {
  switch (_IOC_NR(request)) {
    case _IOC_NR(AMDKFD_IOC_CREATE_EVENT): {
      auto& args = *static_cast<kfd_ioctl_create_event_args*>(argument);
      if (args.event_page_offset != 0) {
        if (event_page_ != 0) return EINVAL;  // kfd_events.c:kfd_kmap_event_page
        if (!bos_.contains(args.event_page_offset)) return EINVAL;
        event_page_ = args.event_page_offset;
      }
      args.event_id = static_cast<std::uint32_t>(events_.size() + 1);
      events_[args.event_id] = {};
      return 0;
    }
    case _IOC_NR(AMDKFD_IOC_SET_EVENT): {
      const auto id = static_cast<kfd_ioctl_set_event_args*>(argument)->event_id;
      if (!events_.contains(id)) return EINVAL;
      events_[id].set = true;
      raised_.notify_all();
      return 0;
    }
    case _IOC_NR(AMDKFD_IOC_DESTROY_EVENT):
      return events_.erase(static_cast<kfd_ioctl_destroy_event_args*>(argument)->event_id) ? 0
                                                                                           : EINVAL;
    default:
      return ENOTTY;
  }
}

int FakeKfd::wait(kfd_ioctl_wait_events_args& args) {
  const auto id = test::at<kfd_event_data>(args.events_ptr)->event_id;
  std::unique_lock lock(mutex_);
  if (!events_.contains(id)) return EINVAL;
  raised_.wait(lock, [&] { return !events_.contains(id) || events_[id].set; });
  if (events_.contains(id)) events_[id].set = false;
  args.wait_result = KFD_IOC_WAIT_RESULT_COMPLETE;
  return 0;
}

int FakeKfd::svm_call(unsigned long request, void* argument) {
  auto& args = *static_cast<kfd_ioctl_svm_args*>(argument);
  const std::size_t bytes = sizeof args + args.nattr * sizeof(kfd_ioctl_svm_attribute);
  if (_IOC_SIZE(request) != bytes) return EINVAL;
  for (std::uint32_t i = 0; i < args.nattr; ++i) {
    kfd_ioctl_svm_attribute& one = args.attrs[i];
    if (one.type == KFD_IOCTL_SVM_ATTR_GRANULARITY) {
      if (args.op == KFD_IOCTL_SVM_OP_SET_ATTR) svm_[args.start_addr] = {args.size, one.value};
      one.value = svm_.contains(args.start_addr) ? svm_[args.start_addr].second : 9;
    }
    const bool asks = args.op == KFD_IOCTL_SVM_OP_GET_ATTR;
    if (asks && one.type == KFD_IOCTL_SVM_ATTR_ACCESS && !svm_.contains(args.start_addr)) {
      one.type = KFD_IOCTL_SVM_ATTR_NO_ACCESS;
    }
  }
  return 0;
}

}  // namespace kfdcp::test
