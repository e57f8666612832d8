#include "core/drm/render_read.h"

#include <amdgpu_drm.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "core/drm/bo_list.h"
#include "core/drm/gem.h"
#include "core/drm/submission.h"
#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::uint64_t kOrdinaryDomains =
    AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
constexpr std::uint64_t kDoorbellDomain = 0x40;  // AMDGPU_GEM_DOMAIN_DOORBELL of Linux 6.5
constexpr std::uint64_t kMapFlags = AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_READABLE |
                                    AMDGPU_VM_PAGE_WRITEABLE | AMDGPU_VM_PAGE_EXECUTABLE |
                                    AMDGPU_VM_MTYPE_MASK | (1u << 9) /* AMDGPU_VM_PAGE_NOALLOC */;
// The most BOs of a file: one BO list must hold them all (USHRT_MAX, amdgpu_bo_list.c of 7.x).
constexpr std::size_t kMaxBoListEntries = 65535;

std::uint64_t deadline_after(int timeout_ms) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec) +
         static_cast<std::uint64_t>(timeout_ms) * 1'000'000;
}

std::uint64_t inode_of(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) == -1) throw io_error("dma-buf");
  return info.st_ino;
}

class Reader {
 public:
  Reader(int fd, std::uint64_t deadline_ns) : fd_(fd), deadline_ns_(deadline_ns) {}

  RenderSnapshot run() && {
    read_handles();
    std::ranges::sort(out_.state.mappings, {}, &GemMapping::address);
    read_contexts();
    read_bo_lists();
    if (drm::any_syncobj(fd_)) refuse("synchronisation objects", "they cannot be saved yet");
    return std::move(out_);
  }

 private:
  void refuse(const std::string& what, const std::string& why) {
    out_.refusals.push_back(what + ": " + why);
  }
  void refuse(const drm::GemHandle& bo, const std::string& why) {
    refuse("GEM handle " + std::to_string(bo.handle), why);
  }

  void read_handles() {
    const auto handles = drm::list_handles(fd_);
    if (!handles) {
      if (drm::any_handle(fd_)) {
        refuse("GEM buffers of its own", "this kernel cannot list them (no GEM_LIST_HANDLES)");
      }
      return;
    }
    for (const drm::GemHandle& handle : *handles) {
      if (const char* why = never_saved(handle)) {
        refuse(handle, why);
      } else if (!read_bo(handle)) {
        return;
      }
    }
  }

  static const char* never_saved(const drm::GemHandle& bo) {
    if ((bo.domains & kDoorbellDomain) != 0) return "it is doorbells of user queues";
    if ((bo.domains & ~kOrdinaryDomains) != 0) return "it is memory inside the GPU (GDS, GWS, OA)";
    if (bo.imported) return "its memory belongs to another device or driver";
    if ((bo.flags & AMDGPU_GEM_CREATE_ENCRYPTED) != 0) return "it is encrypted";
    return nullptr;
  }

  /// False when no further handle can be read either.
  bool read_bo(const drm::GemHandle& handle) {
    std::optional<UniqueFd> dmabuf = drm::export_dmabuf(fd_, handle.handle);
    if (!dmabuf) {
      const bool bound = (handle.flags & AMDGPU_GEM_CREATE_VM_ALWAYS_VALID) != 0;
      refuse(handle, bound ? "it is bound to one address space (VM_ALWAYS_VALID)"
                           : "it is host memory of the process (userptr)");
      return true;
    }
    if (!inodes_.insert(inode_of(dmabuf->get())).second) {
      refuse(handle, "it is a second handle of another one's memory");
      return true;
    }
    RenderState& state = out_.state;
    const auto place = static_cast<std::uint32_t>(state.bos.size());
    const auto mappings = drm::mappings_of(fd_, handle.handle, place);
    if (!mappings) {
      refuse("GEM buffers of its own",
             "this kernel cannot tell where the GPU sees them (no GET_MAPPING_INFO)");
      return false;
    }
    for (const GemMapping& mapping : *mappings) {
      if ((mapping.flags & ~kMapFlags) != 0) refuse(handle, "it is mapped in an unknown way");
      state.mappings.push_back(mapping);
    }
    if (auto metadata = drm::metadata_of(fd_, handle.handle, place)) {
      state.metadata.push_back(*metadata);
    }
    state.bos.push_back({handle.handle, kOwnBo, handle.size, handle.alignment, handle.domains,
                         handle.flags, drm::mmap_offset(fd_, handle.handle)});
    out_.dmabufs.push_back(std::move(*dmabuf));
    return true;
  }

  void read_contexts() {
    std::vector<drm::RingKind> kinds;
    for (std::uint32_t id = 1; id < kContextIds; ++id) {
      const drm::ContextState context = drm::context_state(fd_, id);
      if (context == drm::ContextState::none) continue;
      const std::string name = "context " + std::to_string(id);
      if (context == drm::ContextState::lost_work) refuse(name, "it lost work to a GPU reset");
      if (context == drm::ContextState::pinned_clocks) refuse(name, "it pins the GPU's clocks");
      if (kinds.empty()) kinds = drm::ring_kinds(fd_);
      out_.state.contexts.push_back(id);
      for (const drm::RingKind& kind : kinds) {
        for (std::uint32_t ring = 0; ring < 32; ++ring) {
          if ((kind.rings >> ring & 1) != 0) read_ring(name, id, kind.ip, ring);
        }
      }
    }
  }

  void read_ring(const std::string& context, std::uint32_t id, std::uint32_t ip,
                 std::uint32_t ring) {
    if (const int err = drm::ring_error(fd_, id, ip, ring)) {
      return refuse(context, std::string("work it submitted failed: ") + std::strerror(err));
    }
    const std::uint64_t made = drm::count_submissions(fd_, id, ip, ring);
    if (made == 0) return;
    if (ip != AMDGPU_HW_IP_DMA) {
      refuse(context, "it has submitted work to an engine other than SDMA");
    } else if (made > kMaxSubmissions) {
      refuse(context, "it has submitted more than " + std::to_string(kMaxSubmissions) + " times");
    } else if (!drm::wait_idle(fd_, id, ip, ring, deadline_ns_)) {
      refuse(context, "work it submitted is still in flight");
    } else {
      out_.state.rings.push_back({id, ip, 0, ring, made});
    }
  }

  void read_bo_lists() {
    RenderState& state = out_.state;
    state.bo_lists = drm::find_bo_lists(fd_);
    if (state.bo_lists.empty()) return;
    if (state.bos.size() > kMaxBoListEntries) {
      refuse("BO lists", "a file with so many buffers cannot have them saved");
    }
    if (state.bo_lists.back() > kMaxBoListId) refuse("BO lists", "there are too many to be saved");
  }

  const int fd_;
  const std::uint64_t deadline_ns_;
  std::set<std::uint64_t> inodes_;  // of the dma-bufs so far
  RenderSnapshot out_;
};

}  // namespace

RenderSnapshot read_render_file(int render_fd, int idle_timeout_ms) {
  return Reader(render_fd, deadline_after(idle_timeout_ms)).run();
}

}  // namespace kfdcp
