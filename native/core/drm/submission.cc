#include "core/drm/submission.h"

#include <amdgpu_drm.h>
#include <drm.h>
#include <time.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

#include "core/drm/device_info.h"
#include "core/drm/gem.h"
#include "core/os/device_call.h"

namespace kfdcp::drm {

namespace {

constexpr std::uint32_t kIpKinds = 10;    // AMDGPU_HW_IP_NUM of Linux 7.x
constexpr std::uint32_t kSyncobjs = 512;  // numbers that are looked at
constexpr std::uint64_t kPage = 4096;
// Eight SDMA NOPs are zeros, like new memory. IBs of SDMA are multiples of eight dwords.
constexpr std::uint32_t kNothingBytes = 32;
// The GPU counted memory errors since the context was last asked, whoever's they were. What lost
// work to one has other flags, too (amdgpu_ctx.c:amdgpu_ctx_query2@7.3.4).
constexpr std::uint32_t kCountedErrors =
    AMDGPU_CTX_QUERY2_FLAGS_RAS_CE | AMDGPU_CTX_QUERY2_FLAGS_RAS_UE;
// The highest number but for ~0, which means the latest.
constexpr std::uint64_t kNeverSubmitted = ~std::uint64_t{0} - 1;
/// How often it is asked whether work is over.
constexpr std::chrono::milliseconds kLook{1};

std::string context_text(const char* call, std::uint32_t id) {
  return std::string(call) + " of context " + std::to_string(id);
}

/// The errno of WAIT_CS: EINVAL when there was no such submission yet. `busy`: not over in time.
int wait_for(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring,
             std::uint64_t number, std::uint64_t deadline_ns, bool& busy) {
  drm_amdgpu_wait_cs args{};
  args.in.handle = number;
  args.in.timeout = deadline_ns;
  args.in.ip_type = ip;
  args.in.ring = ring;
  args.in.ctx_id = context;
  const int err = call_device(fd, DRM_IOCTL_AMDGPU_WAIT_CS, &args);
  busy = err == 0 && args.out.status != 0;
  return err;
}

bool was_submitted(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring,
                   std::uint64_t number) {
  bool busy;
  // Any other errno is the result of the submission.
  return wait_for(fd, context, ip, ring, number, 0, busy) != EINVAL;
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// The errno.
int set_clocks(int fd, std::uint32_t context, std::uint32_t level) {
  drm_amdgpu_ctx args{};
  args.in.op = AMDGPU_CTX_OP_SET_STABLE_PSTATE;
  args.in.ctx_id = context;
  args.in.flags = level;
  return call_device(fd, DRM_IOCTL_AMDGPU_CTX, &args);
}

/// The kernel only tells the level of the whole GPU, which may be the administrator's. But one
/// context at most pins it, and to the others it cannot even be set as it is: EBUSY
/// (amdgpu_ctx.c:__amdgpu_ctx_set_stable_pstate@7.3.4). A new context tells whether there is one.
bool pins_clocks(int fd, std::uint32_t id) {
  drm_amdgpu_ctx args{};
  args.in.op = AMDGPU_CTX_OP_GET_STABLE_PSTATE;
  args.in.ctx_id = id;
  must_call(fd, DRM_IOCTL_AMDGPU_CTX, &args, context_text("CTX_GET_STABLE_PSTATE", id));
  const std::uint32_t level = args.out.pstate.flags;
  if (level == AMDGPU_CTX_STABLE_PSTATE_NONE) return false;
  const std::uint32_t other = create_context(fd);
  const int err = set_clocks(fd, other, level);
  free_context(fd, other);
  return err == EBUSY && set_clocks(fd, id, level) == 0;
}

/// A page of zeroes that the GPU can execute, for as long as this lives.
class Nothing {
 public:
  explicit Nothing(int fd)
      : fd_(fd), handle_(create_bo(fd, kPage, kPage, AMDGPU_GEM_DOMAIN_GTT, 0)) {
    try {
      map();
    } catch (...) {
      close();
      throw;
    }
  }
  ~Nothing() { close(); }
  Nothing(const Nothing&) = delete;
  Nothing& operator=(const Nothing&) = delete;

  std::uint32_t handle() const { return handle_; }
  std::uint64_t address() const { return mapping_.address; }

 private:
  /// Where applications reach last: from the top of the address space downwards.
  void map() {
    constexpr int kPlaces = 256;
    constexpr std::uint64_t kStep = 1u << 21;
    const std::uint64_t top = device_info(fd_).virtual_address_max & ~(kStep - 1);
    mapping_ = {0, 0, top - kStep, kPage, 0, AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_EXECUTABLE};
    for (int i = 0;; ++i) {
      try {
        return map_va(fd_, handle_, mapping_);
      } catch (const Error& error) {
        if (error.err != EINVAL || i == kPlaces) throw;  // EINVAL: something is there
      }
      mapping_.address -= kStep;
    }
  }

  /// Its mapping goes with it.
  void close() noexcept {
    drm_gem_close args{};
    args.handle = handle_;
    (void)call_device(fd_, DRM_IOCTL_GEM_CLOSE, &args);
  }

  int fd_;
  std::uint32_t handle_;
  GemMapping mapping_{};
};

}  // namespace

std::vector<RingKind> ring_kinds(int fd) {
  std::vector<RingKind> kinds;
  for (std::uint32_t ip = 0; ip < kIpKinds; ++ip) {
    drm_amdgpu_info args{};
    args.query = AMDGPU_INFO_HW_IP_INFO;
    args.query_hw_ip.type = ip;
    drm_amdgpu_info_hw_ip info{};
    const int err = ask_info(fd, args, info);
    if (err == EINVAL) continue;  // a kind this kernel does not know
    if (err != 0) throw call_error("INFO_HW_IP_INFO", err);
    if (info.available_rings != 0) kinds.push_back({ip, info.available_rings});
  }
  return kinds;
}

ContextState context_state(int fd, std::uint32_t id) {
  drm_amdgpu_ctx query{};
  query.in.op = AMDGPU_CTX_OP_QUERY_STATE2;
  query.in.ctx_id = id;
  const int err = call_device(fd, DRM_IOCTL_AMDGPU_CTX, &query);
  if (err == EINVAL) return ContextState::none;
  if (err != 0) throw call_error(context_text("CTX_QUERY_STATE2", id), err);
  if ((query.out.state.flags & ~kCountedErrors) != 0) return ContextState::lost_work;
  return pins_clocks(fd, id) ? ContextState::pinned_clocks : ContextState::usable;
}

int ring_error(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring) {
  bool busy;
  const int err = wait_for(fd, context, ip, ring, kNeverSubmitted, 0, busy);
  return err == EINVAL ? 0 : err;
}

std::uint64_t count_submissions(int fd, std::uint32_t context, std::uint32_t ip,
                                std::uint32_t ring) {
  std::uint64_t made = 0;                        // was submitted, or 0
  std::uint64_t not_made = kMaxSubmissions + 1;  // or above the limit
  if (was_submitted(fd, context, ip, ring, not_made)) return not_made;
  while (not_made - made > 1) {
    const std::uint64_t middle = made + (not_made - made) / 2;
    (was_submitted(fd, context, ip, ring, middle) ? made : not_made) = middle;
  }
  return made;
}

bool wait_idle(int fd, std::uint32_t context, std::uint32_t ip, std::uint32_t ring,
               std::uint64_t deadline_ns) {
  // The driver compares a deadline with the host's clock (amdgpu_gem.c:amdgpu_gem_timeout@6.12). A
  // restored task has another clock, in its time namespace. So the driver is asked, and never
  // waits.
  for (;;) {
    bool busy;
    // ~0 is the latest submission. Its result may be an error, which concerns the application only.
    (void)wait_for(fd, context, ip, ring, ~std::uint64_t{0}, 0, busy);
    if (!busy) return true;
    if (now_ns() >= deadline_ns) return false;
    std::this_thread::sleep_for(kLook);
  }
}

std::uint32_t create_context(int fd) {
  drm_amdgpu_ctx args{};
  args.in.op = AMDGPU_CTX_OP_ALLOC_CTX;
  must_call(fd, DRM_IOCTL_AMDGPU_CTX, &args, "CTX_ALLOC");
  return args.out.alloc.ctx_id;
}

void free_context(int fd, std::uint32_t id) {
  drm_amdgpu_ctx args{};
  args.in.op = AMDGPU_CTX_OP_FREE_CTX;
  args.in.ctx_id = id;
  must_call(fd, DRM_IOCTL_AMDGPU_CTX, &args, context_text("CTX_FREE", id));
}

bool any_syncobj(int fd) {
  for (std::uint32_t handle = 1; handle <= kSyncobjs; ++handle) {
    std::uint64_t point = 0;
    drm_syncobj_timeline_array args{};
    args.handles = reinterpret_cast<std::uintptr_t>(&handle);
    args.points = reinterpret_cast<std::uintptr_t>(&point);
    args.count_handles = 1;
    const int err = call_device(fd, DRM_IOCTL_SYNCOBJ_QUERY, &args);
    if (err == 0) return true;
    if (err != ENOENT) throw call_error("SYNCOBJ_QUERY of " + std::to_string(handle), err);
  }
  return false;
}

void submit_nothing(int fd, std::uint32_t context, std::uint32_t ring, std::uint64_t times,
                    std::chrono::nanoseconds limit) {
  const Nothing nothing(fd);
  drm_amdgpu_cs_chunk_ib ib{};
  ib.va_start = nothing.address();
  ib.ib_bytes = kNothingBytes;
  ib.ip_type = AMDGPU_HW_IP_DMA;
  ib.ring = ring;
  drm_amdgpu_bo_list_entry entry{nothing.handle(), 0};
  drm_amdgpu_bo_list_in bos{};
  bos.operation = ~0u;
  bos.list_handle = ~0u;
  bos.bo_number = 1;
  bos.bo_info_size = sizeof(entry);
  bos.bo_info_ptr = reinterpret_cast<std::uintptr_t>(&entry);
  drm_amdgpu_cs_chunk chunks[] = {
      {AMDGPU_CHUNK_ID_IB, sizeof(ib) / 4, reinterpret_cast<std::uintptr_t>(&ib)},
      {AMDGPU_CHUNK_ID_BO_HANDLES, sizeof(bos) / 4, reinterpret_cast<std::uintptr_t>(&bos)}};
  const std::uint64_t pointers[] = {reinterpret_cast<std::uintptr_t>(&chunks[0]),
                                    reinterpret_cast<std::uintptr_t>(&chunks[1])};
  for (std::uint64_t i = 0; i < times; ++i) {
    drm_amdgpu_cs args{};
    args.in.ctx_id = context;
    args.in.num_chunks = 2;
    args.in.chunks = reinterpret_cast<std::uintptr_t>(pointers);
    must_call(fd, DRM_IOCTL_AMDGPU_CS, &args, context_text("CS", context));
  }
  // Its memory is freed on return.
  const std::uint64_t deadline_ns = now_ns() + static_cast<std::uint64_t>(limit.count());
  if (!wait_idle(fd, context, AMDGPU_HW_IP_DMA, ring, deadline_ns)) {
    throw call_error(context_text("CS", context), ETIME);
  }
}

}  // namespace kfdcp::drm
