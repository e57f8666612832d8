#include "selftest/buffer.h"

#include <linux/kfd_ioctl.h>

#include <atomic>
#include <utility>

#include "core/os/device_call.h"
#include "core/os/error.h"

namespace kfdcp::selftest {
namespace {

constexpr std::uint32_t kVram = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE;
/// Rings and signals: nobody keeps them in a cache that the other side does not see.
constexpr std::uint32_t kGtt = KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
                               KFD_IOC_ALLOC_MEM_FLAGS_EXECUTABLE |
                               KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;
constexpr std::uint32_t kUserptr = KFD_IOC_ALLOC_MEM_FLAGS_USERPTR |
                                   KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE |
                                   KFD_IOC_ALLOC_MEM_FLAGS_COHERENT;

template <class Word>
Word load_word(const Word& word) {
  return std::atomic_ref(const_cast<Word&>(word)).load(std::memory_order_acquire);
}

}  // namespace

Buffer::Buffer(Gpu& gpu, Mapping reserved, std::span<std::byte> bytes)
    : gpu_(&gpu), reserved_(std::move(reserved)), bytes_(bytes) {}

Buffer Buffer::vram(Gpu& gpu, std::size_t bytes) {
  Mapping reserved = reserve(bytes);
  const std::span<std::byte> at = reserved.bytes();
  Buffer buffer(gpu, std::move(reserved), at);
  const std::uint64_t offset = buffer.allocate(kVram, 0);
  map_over(buffer.reserved_, PROT_NONE, gpu.render(), offset);
  return buffer;
}

Buffer Buffer::gtt(Gpu& gpu, std::size_t bytes) {
  Mapping reserved = reserve(bytes);
  const std::span<std::byte> at = reserved.bytes();
  Buffer buffer(gpu, std::move(reserved), at);
  const std::uint64_t offset = buffer.allocate(kGtt, 0);
  map_over(buffer.reserved_, PROT_READ | PROT_WRITE, gpu.render(), offset);
  return buffer;
}

Buffer Buffer::userptr(Gpu& gpu, std::span<std::byte> user) {
  Buffer buffer(gpu, {}, user);
  buffer.allocate(kUserptr, reinterpret_cast<std::uintptr_t>(user.data()));
  return buffer;
}

Buffer Buffer::imported(Gpu& gpu, int dmabuf, std::size_t bytes) {
  Mapping reserved = reserve(bytes);
  const std::span<std::byte> at = reserved.bytes();
  Buffer buffer(gpu, std::move(reserved), at);
  buffer.bo_ = kfd::import_dmabuf(gpu.kfd(), gpu.id(), dmabuf, buffer.address());
  kfd::map_memory(gpu.kfd(), buffer.bo_, {gpu.id()});
  buffer.mapped_ = true;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : gpu_(std::exchange(other.gpu_, nullptr)),
      reserved_(std::move(other.reserved_)),
      bytes_(other.bytes_),
      bo_(other.bo_),
      mapped_(other.mapped_) {}

Buffer::~Buffer() {
  if (gpu_ == nullptr || bo_.gpu_id == 0) return;
  try {
    if (mapped_) kfd::unmap_memory(gpu_->kfd(), bo_, {gpu_->id()});
    kfd::free_memory(gpu_->kfd(), bo_);
  } catch (const Error&) {
    // The end of the process frees it.
  }
}

std::uint64_t Buffer::allocate(std::uint32_t flags, std::uint64_t user) {
  kfd_ioctl_alloc_memory_of_gpu_args arguments{};
  arguments.va_addr = address();
  arguments.size = size();
  arguments.mmap_offset = user;
  arguments.gpu_id = gpu_->id();
  arguments.flags = flags;
  must_call(gpu_->kfd(), AMDKFD_IOC_ALLOC_MEMORY_OF_GPU, &arguments,
            gpu_->name() + ": KFD ALLOC_MEMORY of " + std::to_string(size()) + " bytes");
  bo_ = {gpu_->id(), static_cast<std::uint32_t>(arguments.handle)};
  kfd::map_memory(gpu_->kfd(), bo_, {gpu_->id()});
  mapped_ = true;
  return arguments.mmap_offset;
}

std::uint64_t Buffer::handle() const { return std::uint64_t{bo_.gpu_id} << 32 | bo_.number; }

UniqueFd Buffer::export_dmabuf() const { return kfd::export_dmabuf(gpu_->kfd(), bo_); }

Mapping host_memory(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw io_error("host memory");
  return {base, bytes};
}

std::uint32_t load(const std::uint32_t& word) { return load_word(word); }
std::uint64_t load(const std::uint64_t& word) { return load_word(word); }

void store(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

}  // namespace kfdcp::selftest
