#include "core/drm/bo_list.h"

#include <amdgpu_drm.h>

#include <string>

#include "core/drm/gem.h"
#include "core/os/device_call.h"

namespace kfdcp::drm {

namespace {

constexpr std::uint32_t kFreeInARow = 512;

/// BO lists that are made only to see their ids. The file belongs to an application that continues,
/// so none may stay, whatever fails.
class TrialLists {
 public:
  explicit TrialLists(int fd) : fd_(fd) {}
  ~TrialLists() {
    for (const std::uint32_t id : ids_) {
      drm_amdgpu_bo_list args{};
      args.in.operation = AMDGPU_BO_LIST_OP_DESTROY;
      args.in.list_handle = id;
      (void)call_device(fd_, DRM_IOCTL_AMDGPU_BO_LIST, &args);
    }
  }
  TrialLists(const TrialLists&) = delete;
  TrialLists& operator=(const TrialLists&) = delete;

  /// The id of a new one.
  std::uint32_t add() {
    ids_.reserve(ids_.size() + 1);  // nothing may throw once it is made
    ids_.push_back(create_bo_list(fd_, {}));
    return ids_.back();
  }

 private:
  int fd_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace

std::uint32_t create_bo_list(int fd, std::span<const std::uint32_t> handles) {
  std::vector<drm_amdgpu_bo_list_entry> entries;
  for (const std::uint32_t handle : handles) entries.push_back({handle, 0});
  drm_amdgpu_bo_list args{};
  args.in.operation = AMDGPU_BO_LIST_OP_CREATE;
  args.in.bo_number = static_cast<std::uint32_t>(entries.size());
  args.in.bo_info_size = sizeof(drm_amdgpu_bo_list_entry);
  args.in.bo_info_ptr = reinterpret_cast<std::uintptr_t>(entries.data());
  must_call(fd, DRM_IOCTL_AMDGPU_BO_LIST, &args, "BO_LIST_CREATE");
  return args.out.list_handle;
}

void destroy_bo_list(int fd, std::uint32_t id) {
  drm_amdgpu_bo_list args{};
  args.in.operation = AMDGPU_BO_LIST_OP_DESTROY;
  args.in.list_handle = id;
  must_call(fd, DRM_IOCTL_AMDGPU_BO_LIST, &args, "BO_LIST_DESTROY of " + std::to_string(id));
}

std::vector<std::uint32_t> find_bo_lists(int fd) {
  TrialLists made(fd);
  std::vector<std::uint32_t> found;
  std::uint32_t in_a_row = 0;
  std::uint32_t next = 1;
  while (in_a_row < kFreeInARow) {
    const std::uint32_t id = made.add();
    in_a_row = id == next ? in_a_row + 1 : 1;
    for (; next < id; ++next) found.push_back(next);
    next = id + 1;
  }
  return found;
}

}  // namespace kfdcp::drm
