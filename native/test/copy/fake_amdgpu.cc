#include "test/copy/fake_amdgpu.h"

#include <drm.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>

namespace kfdcp::test {
namespace {

constexpr std::uint64_t kPage = 4096;
FakeAmdgpu* current = nullptr;

template <class T>
T* pointer(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

void text(char* to, std::size_t& room, const char* from) {
  if (to != nullptr) std::memcpy(to, from, std::min(room, std::strlen(from)));
  room = std::strlen(from);
}

int version(drm_version& version, const std::string& driver) {
  version.version_major = 3;
  version.version_minor = 54;
  text(version.name, version.name_len, driver.c_str());
  text(version.date, version.date_len, "0");
  text(version.desc, version.desc_len, "fake");
  return 0;
}

}  // namespace

FakeAmdgpu::FakeAmdgpu(unsigned rings)
    : file_(::memfd_create("render", MFD_CLOEXEC)), rings_(rings) {
  current = this;
}

FakeAmdgpu::~FakeAmdgpu() { current = nullptr; }

std::uint32_t FakeAmdgpu::add(Bo bo) {
  bos_.emplace(++last_handle_, std::move(bo));
  return last_handle_;
}

int FakeAmdgpu::ioctl(unsigned long request, void* argument) {
  const unsigned number = _IOC_NR(request);
  if (const auto error = errors.find(number); error != errors.end()) return error->second;
  if (number >= DRM_COMMAND_BASE) return driver(number - DRM_COMMAND_BASE, argument);
  if (number == _IOC_NR(DRM_IOCTL_VERSION)) {
    return version(*static_cast<drm_version*>(argument), driver_name);
  }
  if (number == _IOC_NR(DRM_IOCTL_GET_CLIENT)) return 0;
  if (number == _IOC_NR(DRM_IOCTL_GEM_CLOSE)) {
    return bos_.erase(static_cast<drm_gem_close*>(argument)->handle) == 1 ? 0 : EINVAL;
  }
  if (number == _IOC_NR(DRM_IOCTL_PRIME_FD_TO_HANDLE)) {
    auto& prime = *static_cast<drm_prime_handle*>(argument);
    const auto bytes = static_cast<std::size_t>(::lseek(prime.fd, 0, SEEK_END));
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, prime.fd, 0);
    if (base == MAP_FAILED) return errno;
    Mapping mapping(base, bytes);
    const std::span<std::byte> memory = mapping.bytes();
    prime.handle = add({memory, false, std::move(mapping)});
    return 0;
  }
  return ENOTTY;
}

int FakeAmdgpu::driver(unsigned number, void* argument) {
  switch (number) {
    case DRM_AMDGPU_INFO:
      return info(*static_cast<drm_amdgpu_info*>(argument));
    case DRM_AMDGPU_GEM_CREATE:
      return create(*static_cast<drm_amdgpu_gem_create*>(argument));
    case DRM_AMDGPU_GEM_MMAP: {
      auto& place = *static_cast<drm_amdgpu_gem_mmap*>(argument);
      const Bo& bo = bos_.at(place.in.handle);
      place.out.addr_ptr = file_bytes_ - bo.memory.size();  // one such BO is enough
      return 0;
    }
    case DRM_AMDGPU_GEM_USERPTR: {
      auto& user = *static_cast<drm_amdgpu_gem_userptr*>(argument);
      user.handle = add({{pointer<std::byte>(user.addr), user.size}, true});
      return 0;
    }
    case DRM_AMDGPU_GEM_METADATA:
      static_cast<drm_amdgpu_gem_metadata*>(argument)->data = {};
      return 0;
    case DRM_AMDGPU_GEM_OP:
      return info_of(*static_cast<drm_amdgpu_gem_op*>(argument));
    case DRM_AMDGPU_GEM_VA:
      return map(*static_cast<drm_amdgpu_gem_va*>(argument));
    case DRM_AMDGPU_CTX:
      static_cast<drm_amdgpu_ctx*>(argument)->out.alloc.ctx_id = 1;
      return 0;
    case DRM_AMDGPU_BO_LIST:
      ++bo_lists;
      return EINVAL;
    case DRM_AMDGPU_CS:
      return submit(*static_cast<drm_amdgpu_cs*>(argument));
    case DRM_AMDGPU_WAIT_CS:
      return wait(*static_cast<drm_amdgpu_wait_cs*>(argument));
    default:
      return ENOTTY;
  }
}

int FakeAmdgpu::info(const drm_amdgpu_info& query) const {
  auto* to = pointer<std::byte>(query.return_pointer);
  const auto give = [&](const auto& answer) {
    std::memcpy(to, &answer, std::min<std::size_t>(sizeof answer, query.return_size));
    return 0;
  };
  if (query.query == AMDGPU_INFO_ACCEL_WORKING) return give(std::uint32_t{1});
  if (query.query == AMDGPU_INFO_HW_IP_INFO) {
    drm_amdgpu_info_hw_ip answer{};
    answer.available_rings = (1u << rings_) - 1;
    return give(answer);
  }
  if (query.query == AMDGPU_INFO_VRAM_GTT) return give(drm_amdgpu_info_vram_gtt{vram, vram, vram});
  if (query.query == AMDGPU_INFO_VRAM_USAGE) return give(vram_used);
  drm_amdgpu_info_device answer{};
  answer.family = AMDGPU_FAMILY_AI;
  answer.virtual_address_offset = 2u << 20;
  answer.virtual_address_max = 1ull << 40;
  answer.virtual_address_alignment = kPage;
  answer.high_va_offset = 1ull << 44;
  answer.high_va_max = 1ull << 45;
  answer.gart_page_size = kPage;
  if (query.query == AMDGPU_INFO_DEV_INFO) return give(answer);
  std::memset(to, 0, query.return_size);
  return 0;
}

int FakeAmdgpu::info_of(drm_amdgpu_gem_op& question) const {
  const auto bo = bos_.find(question.handle);
  if (bo == bos_.end()) return ENOENT;
  if (question.op != AMDGPU_GEM_OP_GET_GEM_CREATE_INFO) return EINVAL;
  *pointer<drm_amdgpu_gem_create_in>(question.value) = {bo->second.memory.size(), kPage,
                                                        bo->second.domains, 0};
  return 0;
}

int FakeAmdgpu::create(drm_amdgpu_gem_create& create) {
  const std::uint64_t bytes = create.in.bo_size;
  const std::uint64_t offset = file_bytes_;
  file_bytes_ += bytes;
  if (::ftruncate(fd(), static_cast<off_t>(file_bytes_)) != 0) return errno;
  void* base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd(), static_cast<off_t>(offset));
  if (base == MAP_FAILED) return errno;
  Mapping mapping(base, bytes);
  const std::span<std::byte> memory = mapping.bytes();
  // As amdgpu_gem.c:amdgpu_gem_create_ioctl@6.12.117: GTT is added to the domains.
  const std::uint64_t domains = create.in.domains | (vram_spills ? AMDGPU_GEM_DOMAIN_GTT : 0);
  create.out.handle = add({memory, false, std::move(mapping), domains});
  return 0;
}

int FakeAmdgpu::map(const drm_amdgpu_gem_va& va) {
  if (va.operation == AMDGPU_VA_OP_UNMAP) return mappings_.erase(va.va_address) == 1 ? 0 : EINVAL;
  const auto bo = bos_.find(va.handle);
  if (bo == bos_.end()) return ENOENT;
  mappings_[va.va_address] = {va.handle, va.offset_in_bo, va.map_size};
  return 0;
}

int FakeAmdgpu::submit(drm_amdgpu_cs& cs) {
  Submission job{};
  bool listed = false;
  const auto* chunks = pointer<std::uint64_t>(cs.in.chunks);
  for (std::uint32_t i = 0; i < cs.in.num_chunks; ++i) {
    const auto& chunk = *pointer<drm_amdgpu_cs_chunk>(chunks[i]);
    if (chunk.chunk_id == AMDGPU_CHUNK_ID_IB) {
      const auto& ib = *pointer<drm_amdgpu_cs_chunk_ib>(chunk.chunk_data);
      if (ib.ip_type != AMDGPU_HW_IP_DMA || ib.ring >= rings_) return EINVAL;
      job.ring = ib.ring;
      job.commands = ib.va_start;
      job.command_bytes = ib.ib_bytes;
    } else if (chunk.chunk_id == AMDGPU_CHUNK_ID_BO_HANDLES) {
      listed = true;
      const auto& list = *pointer<drm_amdgpu_bo_list_in>(chunk.chunk_data);
      const auto* entries = pointer<drm_amdgpu_bo_list_entry>(list.bo_info_ptr);
      for (std::uint32_t n = 0; n < list.bo_number; ++n) {
        const auto bo = bos_.find(entries[n].bo_handle);
        if (bo == bos_.end()) return ENOENT;
        if (!job.bos.insert(bo->first).second) return EEXIST;
        if (bo->second.user) job.user_pages += bo->second.memory.size() / kPage;
      }
    } else {
      return EINVAL;
    }
  }
  if (listed && cs.in.bo_list_handle != 0) return EINVAL;
  submissions.push_back(std::move(job));
  auto& of_ring = sequences_[submissions.back().ring];
  of_ring.push_back(submissions.size() - 1);
  cs.out.handle = of_ring.size();
  return 0;
}

int FakeAmdgpu::wait(drm_amdgpu_wait_cs& wait) {
  const auto ring = sequences_.find(wait.in.ring);
  if (ring == sequences_.end() || wait.in.handle == 0 || wait.in.handle > ring->second.size()) {
    return EINVAL;
  }
  for (std::size_t n = 0; n < wait.in.handle; ++n) {
    Submission& job = submissions[ring->second[n]];
    if (job.done) continue;
    job.done = true;
    job.failed = fails == ring->second[n] || !run(job);
  }
  if (submissions[ring->second[wait.in.handle - 1]].failed) return EIO;
  wait.out.status = 0;
  return 0;
}

std::byte* FakeAmdgpu::at(const Submission& job, std::uint64_t address, std::uint64_t bytes) {
  auto next = mappings_.upper_bound(address);
  if (next == mappings_.begin()) return nullptr;
  const auto& [begin, va] = *--next;
  if (address - begin + bytes > va.bytes || !job.bos.contains(va.bo)) return nullptr;
  const std::span<std::byte> memory = bos_.at(va.bo).memory;
  const std::uint64_t offset = va.offset + (address - begin);
  return offset + bytes <= memory.size() ? memory.data() + offset : nullptr;
}

bool FakeAmdgpu::run(const Submission& job) {
  const std::byte* commands = at(job, job.commands, job.command_bytes);
  if (commands == nullptr) return false;
  std::vector<std::uint32_t> words(job.command_bytes / 4);
  std::memcpy(words.data(), commands, job.command_bytes);
  for (std::size_t i = 0; i < words.size();) {
    if (words[i] == 0) {
      ++i;
      continue;
    }
    if (words[i] != 1 || i + 7 > words.size()) return false;  // a linear copy, and no other
    const std::uint64_t bytes = std::uint64_t{words[i + 1]} + 1;
    const auto address = [&](std::size_t n) {
      return words[i + n] | std::uint64_t{words[i + n + 1]} << 32;
    };
    const std::byte* from = at(job, address(3), bytes);
    std::byte* to = at(job, address(5), bytes);
    if (from == nullptr || to == nullptr) return false;
    std::memcpy(to, from, bytes);
    i += 7;
  }
  return true;
}

}  // namespace kfdcp::test

// Before the C library's, for libdrm too.
extern "C" __attribute__((visibility("default"))) int ioctl(int fd, unsigned long request,
                                                            ...) noexcept {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  auto* fake = kfdcp::test::current;
  if (fake == nullptr || _IOC_TYPE(request) != DRM_IOCTL_BASE) {
    return static_cast<int>(::syscall(SYS_ioctl, fd, request, argument));
  }
  const int error = fake->ioctl(request, argument);
  if (error == 0) return 0;
  errno = error;
  return -1;
}
