#include "criu-plugin/dump_render.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/drm/render_link.h"
#include "core/kfd/kfd_maps.h"
#include "core/os/error.h"
#include "core/os/procfs.h"
#include "core/wire/wire.h"

namespace kfdcp::criu {

namespace {

using RenderFile = GpuProcess::RenderFile;

std::string who(const GpuProcess& process) {
  return "pid " + std::to_string(process.pid) + " (" + procfs::comm(process.pid) + ")";
}

[[noreturn]] void cannot_be_restored(const GpuProcess& process, const std::string& what) {
  throw Error(ErrorCode::unsupported,
              who(process) + " maps " + what + ": such a mapping cannot be restored");
}

/// The gpu_id that the BO buckets have for the GPU with render node `minor`.
std::uint32_t user_gpu_id(const GpuProcess& process, const ProcessState& state,
                          std::uint32_t minor) {
  static const std::map<std::uint32_t, std::uint32_t> gpus = procfs::gpus_by_minor();
  if (const auto gpu = gpus.find(minor); gpu != gpus.end()) {
    const auto device =
        std::ranges::find(state.devices, gpu->second, &kfd_criu_device_bucket::actual_gpu_id);
    if (device != state.devices.end()) return device->user_gpu_id;
  }
  cannot_be_restored(process, "renderD" + std::to_string(minor) + ", no GPU of its KFD state");
}

/// Of KFD's buffers on this GPU that have memory of their own.
std::vector<std::uint64_t> offsets_on(const ProcessState& state, std::uint32_t gpu_id) {
  constexpr std::uint32_t kMemory = KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT;
  std::vector<std::uint64_t> offsets;
  for (const kfd_criu_bo_bucket& bo : state.bos) {
    if (bo.gpu_id == gpu_id && (bo.alloc_flags & kMemory) != 0) offsets.push_back(bo.offset);
  }
  return offsets;
}

void find_carrier(GpuProcess& process, const ProcessState& state, RenderFile& file) {
  std::vector<int> others;
  for (const RenderFile& other : process.render_files) {
    if (&other != &file && other.minor == file.minor) others.push_back(other.file.get());
  }
  const auto offsets = offsets_on(state, user_gpu_id(process, state, file.minor));
  if (!offsets.empty()) {
    file.carries_kfd = carries_kfd(file.file.get(), others, offsets);
  } else if (others.empty()) {
    file.carries_kfd = true;  // nothing is in it yet
  } else {
    throw Error(ErrorCode::unsupported,
                who(process) +
                    " opened one render node more than once and has no memory on its GPU: which "
                    "file will hold it is ambiguous");
  }
}

bool is_buffer(const GpuProcess& process, const ProcessState& state, const VmaRecord& vma,
               std::uint32_t minor) {
  const auto is_kfds = [&](const kfd_criu_bo_bucket& bo) {
    return bo.gpu_id == vma.gpu_id && bo.offset == vma.pgoff;
  };
  const auto is_in = [&](const RenderFile& file) {
    return file.minor == minor &&
           std::ranges::find(file.held.state.bos, vma.pgoff, &GemBo::mmap_offset) !=
               file.held.state.bos.end();
  };
  return std::ranges::any_of(state.bos, is_kfds) ||
         std::ranges::any_of(process.render_files, is_in);
}

}  // namespace

void link_render_files(GpuProcess& process, const kfd::Checkpoint& saved) {
  std::vector<LinkedFile> files;
  for (RenderFile& file : process.render_files) {
    if (!process.kfd_files.empty()) find_carrier(process, saved.state, file);
    files.push_back({&file.held, file.carries_kfd, user_gpu_id(process, saved.state, file.minor)});
  }
  link_buffers(files, saved.state, saved.dmabufs);
}

/// DRM maps a buffer from its start only (drm_gem_mmap looks the offset up exactly), and CRIU maps
/// every piece by itself: a piece from the middle of a buffer could never come back.
std::vector<VmaRecord> mappings(const GpuProcess& process, const ProcessState& state) {
  std::vector<VmaRecord> records;
  const procfs::GpuVmas vmas = procfs::gpu_vmas(process.pid, procfs::kfd_major());
  for (const auto& [start, end, pgoff, minor] : vmas.devices) {
    VmaRecord& vma = records.emplace_back(
        VmaRecord{start, end, pgoff, minor ? VmaRecord::render : VmaRecord::kfd, 0});
    if (!minor) {
      if (kfd_buffer_of(state, vma) != nullptr) continue;
      cannot_be_restored(process, "/dev/kfd beside its buffers (as libhsakmt does for old APUs)");
    }
    vma.gpu_id = user_gpu_id(process, state, *minor);
    if (is_buffer(process, state, vma, *minor)) continue;
    cannot_be_restored(process, "a GPU buffer in pieces (mprotect or munmap of a part of it)");
  }
  return records;
}

void send_render_files(int socket, GpuProcess& process, const ProcessState& state,
                       std::uint32_t& next_number) {
  auto index = static_cast<std::uint32_t>(state.bos.size());
  for (RenderFile& file : process.render_files) {
    RenderState& held = file.held.state;
    held.ordinal = next_number++;
    UniqueFd memfd;
    if (!held.empty()) {
      const std::vector<std::byte> bytes = encode_render_state(held);
      memfd = make_memfd("render-state", bytes.data(), bytes.size());
    }
    std::vector<int> fds;
    if (memfd) fds.push_back(memfd.get());
    send_message(socket, MessageType::dump_render,
                 {state.ordinal, held.ordinal, file.minor, file.carries_kfd ? 1u : 0u}, "", fds);
    std::vector<std::pair<std::uint32_t, UniqueFd>> own;
    for (std::size_t i = 0; i < held.bos.size(); ++i, ++index) {
      if (held.bos[i].original == kOwnBo) own.emplace_back(index, std::move(file.held.dmabufs[i]));
    }
    send_buffers(socket, MessageType::dump_buffers, state.ordinal, own);
    file.held.dmabufs.clear();
  }
}

}  // namespace kfdcp::criu
