// CRIU's view of the plugin: one exported descriptor, and one wrapper per hook that lets no
// exception out.
#include <sys/stat.h>

#include <cerrno>
#include <exception>

#include "core/os/error.h"
#include "core/os/procfs.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/dump.h"
#include "criu-plugin/log.h"
#include "criu-plugin/name.h"
#include "criu-plugin/restore.h"
#include "criu-plugin/restore_vma.h"

namespace {

using namespace kfdcp;
using namespace kfdcp::criu;

template <class F>
int guarded(F&& body) noexcept {
  try {
    return body();
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
  return -1;
}

/// Which stage CRIU loaded the plugin for.
int current_stage = kDump;

/// Fails for images with a GPU only: anything else would break every dump and restore of the host.
int init(int stage) noexcept {
  current_stage = stage;
  return guarded([&] {
    if (stage == kRestore && claim_from_inventory(kPluginName)) begin_restore();
    return 0;
  });
}

void fini(int stage, int result) noexcept {
  if (stage == kDump) finish_dump(result);
  if (stage == kRestore) end_restore(result);
}

/// CRIU calls this for the root of the tree first, before it stops anything, and then for every
/// other task. Never 0, which would end CRIU's round of the plugins.
int pause_devices(int pid) noexcept {
  return guarded([&] {
    // `criu pre-dump` copies host memory while the container runs. It has no GPU part.
    if (current_stage == kDump) begin_dump(pid);
    return -ENOTSUP;
  });
}

int checkpoint_devices(int pid) noexcept {
  return guarded([&] {
    checkpoint_tree(pid);
    return 0;
  });
}

int dump_ext_file(int fd, int id) noexcept {
  return guarded([&] { return dump_file(fd, id) ? 0 : -ENOTSUP; });
}

int restore_ext_file(int id, bool* retry_needed) noexcept {
  static const bool has_retry = host_hook_slots() >= kSlotsWithRetry;
  if (has_retry) *retry_needed = false;
  return guarded([&] { return restore_file(id); });
}

/// Also called by `criu pre-dump`, where there is no session.
int handle_device_vma(int, const struct stat* info) noexcept {
  return guarded([&] {
    const int kfd_major = procfs::kfd_major();
    if (kfd_major < 0) return -ENOTSUP;  // render nodes of other drivers are no business of ours
    const bool ours = procfs::is_kfd(info->st_mode, info->st_rdev, kfd_major) ||
                      procfs::is_render(info->st_mode, info->st_rdev);
    return ours ? 0 : -ENOTSUP;
  });
}

int update_vma_map(const char* path, std::uint64_t address, std::uint64_t old_offset,
                   std::uint64_t* new_offset, int* fd) noexcept {
  return guarded([&] { return update_vma(path, address, old_offset, *new_offset, *fd) ? 1 : 0; });
}

template <class F>
constexpr void* slot(F* hook) {
  return reinterpret_cast<void*>(hook);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) kfdcp::criu::Descriptor CR_PLUGIN_DESC;

kfdcp::criu::Descriptor CR_PLUGIN_DESC = {
    kfdcp::criu::kPluginName,
    init,
    fini,
    kfdcp::criu::kInterfaceVersion,
    kfdcp::criu::kHookSlots,
    {nullptr, nullptr, slot(dump_ext_file), slot(restore_ext_file), nullptr, nullptr, nullptr,
     slot(handle_device_vma), slot(update_vma_map), nullptr, slot(pause_devices),
     slot(checkpoint_devices)},
};
