#include "core/drm/render_restore.h"

#include <amdgpu_drm.h>

#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/drm/bo_list.h"
#include "core/drm/gem.h"
#include "core/drm/submission.h"
#include "core/os/error.h"

namespace kfdcp {

namespace {

// Each placeholder of a GEM handle may use a page of memory for a moment.
constexpr std::uint32_t kMaxHoles = 65536;
constexpr std::uint64_t kPage = 4096;

[[noreturn]] void wrong_number(const char* what, std::uint32_t wanted, std::uint32_t got) {
  throw Error(ErrorCode::gpu,
              std::string(what) + " " + std::to_string(wanted) + " became " + std::to_string(got));
}

/// Makes things whose numbers are the lowest free ones, each with the number it shall have: what
/// comes in between is made, too, and freed at the end.
template <class Make, class Free>
void make_numbered(const char* what, std::span<const std::uint32_t> numbers, Make&& make,
                   Free&& free) {
  std::vector<std::uint32_t> placeholders;
  std::uint32_t next = 1;
  for (const std::uint32_t wanted : numbers) {
    for (;; ++next) {
      const std::uint32_t got = make();
      if (got != next) wrong_number(what, next, got);
      if (next == wanted) break;
      placeholders.push_back(got);
    }
    ++next;
  }
  for (const std::uint32_t number : placeholders) free(number);
}

class Restorer {
 public:
  Restorer(int fd, const RenderState& state, const ExistingBuffer& existing)
      : fd_(fd), state_(state), existing_(existing) {}

  RestoredRender run() && {
    for (std::size_t i = 0; i < state_.bos.size(); ++i) restore_bo(i);
    for (const std::uint32_t handle : placeholders_) drm::close_handle(fd_, handle);
    for (const GemMapping& mapping : state_.mappings) {
      drm::map_va(fd_, state_.bos[mapping.bo].handle, mapping);
    }
    for (const GemMetadata& metadata : state_.metadata) {
      drm::set_metadata(fd_, state_.bos[metadata.bo].handle, metadata);
    }
    restore_contexts();
    restore_bo_lists();
    return std::move(out_);
  }

 private:
  void restore_bo(std::size_t place) {
    const GemBo& bo = state_.bos[place];
    const bool hole = lowest_free_ < bo.handle;
    if (hole && !can_change()) take_handles_below(bo.handle);
    const std::uint32_t handle = make(place);
    if (handle != bo.handle) {
      if (!hole || !can_change()) wrong_number("GEM handle", bo.handle, handle);
      drm::change_handle(fd_, handle, bo.handle);
    }
    if (lowest_free_ == bo.handle) ++lowest_free_;
    std::optional<UniqueFd> dmabuf = drm::export_dmabuf(fd_, bo.handle);
    if (!dmabuf) {
      throw Error(ErrorCode::gpu,
                  "GEM handle " + std::to_string(bo.handle) + " differs from the recorded one");
    }
    out_.dmabufs.push_back(std::move(*dmabuf));
    out_.mmap_offsets.push_back(bo.mmap_offset == 0 ? 0 : drm::mmap_offset(fd_, bo.handle));
  }

  /// The BO with whatever handle is free.
  std::uint32_t make(std::size_t place) {
    const GemBo& bo = state_.bos[place];
    if (bo.original != kOwnBo) return drm::import_dmabuf(fd_, existing_(bo.original));
    return drm::create_bo(fd_, bo.size, bo.alignment, bo.domains, bo.flags);
  }

  bool can_change() {
    if (!can_change_) can_change_ = drm::can_change_handles(fd_);
    return *can_change_;
  }

  void take_handles_below(std::uint32_t wanted) {
    if (wanted - lowest_free_ > kMaxHoles - placeholders_.size()) {
      throw Error(ErrorCode::unsupported,
                  "GEM handle " + std::to_string(wanted) +
                      ": too many free ones below it for a kernel without GEM_CHANGE_HANDLE");
    }
    for (; lowest_free_ < wanted; ++lowest_free_) {
      const std::uint32_t got = drm::create_bo(fd_, kPage, kPage, AMDGPU_GEM_DOMAIN_GTT, 0);
      if (got != lowest_free_) wrong_number("GEM handle", lowest_free_, got);
      placeholders_.push_back(got);
    }
  }

  void restore_contexts() {
    make_numbered(
        "context", state_.contexts, [this] { return drm::create_context(fd_); },
        [this](std::uint32_t id) { drm::free_context(fd_, id); });
    for (const ContextRing& ring : state_.rings) {
      drm::submit_nothing(fd_, ring.context, ring.ring, ring.submissions);
    }
  }

  void restore_bo_lists() {
    std::vector<std::uint32_t> handles;
    for (const GemBo& bo : state_.bos) handles.push_back(bo.handle);
    make_numbered(
        "BO list", state_.bo_lists, [&] { return drm::create_bo_list(fd_, handles); },
        [this](std::uint32_t id) { drm::destroy_bo_list(fd_, id); });
  }

  const int fd_;
  const RenderState& state_;
  const ExistingBuffer& existing_;
  std::uint32_t lowest_free_ = 1;
  std::optional<bool> can_change_;
  std::vector<std::uint32_t> placeholders_;  // handles of holes, to be closed
  RestoredRender out_;
};

}  // namespace

RestoredRender restore_render_file(int render_fd, const RenderState& state,
                                   const ExistingBuffer& existing) {
  return Restorer(render_fd, state, existing).run();
}

}  // namespace kfdcp
