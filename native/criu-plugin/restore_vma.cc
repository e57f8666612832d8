#include "criu-plugin/restore_vma.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/kfd/kfd_maps.h"
#include "core/os/error.h"
#include "core/os/stage.h"
#include "core/wire/wire.h"
#include "criu-plugin/request.h"
#include "criu-plugin/task_session.h"

namespace kfdcp::criu {

namespace {

/// A render file, for the mappings of it.
struct MappedFile {
  UniqueFd file;        // taken at the first mapping, given away at the last
  std::size_t to_come;  // mappings
};

/// The gpu_id of the BO buckets; which of its render files: 0 for the one that carries KFD's
/// memory.
using FileKey = std::pair<std::uint32_t, std::uint64_t>;

/// What UPDATE_VMA_MAP needs to know about this task.
struct RestoredProcess {
  int criu_pid;
  ProcessState state;                 // buckets carry restored_offset
  std::vector<RenderOffset> offsets;  // of buffers that are not KFD's
  std::map<FileKey, MappedFile> render;
  std::size_t mapped = 0;
};

std::unique_ptr<RestoredProcess> restored;

/// The GPU of a render mapping. An image of a process with one GPU need not name it.
std::uint32_t gpu_of(const ProcessState& state, const VmaRecord& vma) {
  if (vma.gpu_id != 0 || state.devices.size() != 1) return vma.gpu_id;
  return state.devices.front().user_gpu_id;
}

[[noreturn]] void no_buffer(const VmaRecord& vma) {
  throw Error(ErrorCode::corrupt,
              "no recorded buffer for the mapping at address " + std::to_string(vma.start));
}

/// Where a recorded mapping of a render node leads to now.
struct Place {
  std::uint64_t offset;
  FileKey file;
};

Place place_of(const VmaRecord& vma) {
  const std::uint32_t gpu_id = gpu_of(restored->state, vma);
  for (const kfd_criu_bo_bucket& bo : restored->state.bos) {
    if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0) continue;
    if (bo.gpu_id != gpu_id || vma.pgoff < bo.offset || vma.pgoff - bo.offset >= bo.size) continue;
    return {bo.restored_offset + (vma.pgoff - bo.offset), {gpu_id, 0}};
  }
  for (const RenderOffset& bo : restored->offsets) {
    if (bo.gpu_id == gpu_id && bo.old_offset == vma.pgoff) {
      return {bo.new_offset, {gpu_id, bo.which}};
    }
  }
  no_buffer(vma);
}

/// The mapping's descriptor. CRIU gives every device mapping a file id of its own
/// (criu/file-ids.c, fd_id_generate_special), so it takes one descriptor for each and closes it
/// after mapping. Any other would stay open in the application: the last gets the original.
int render_for_vma(const FileKey& key) {
  MappedFile& render = restored->render.at(key);
  if (!render.file) {
    const UniqueFd session = connect_session(restored->criu_pid);
    render.file = render_file(session.get(), restored->state.ordinal, key.first, key.second);
  }
  if (render.to_come == 0) throw Error(ErrorCode::protocol, "more mappings than recorded");
  if (--render.to_come == 0) return render.file.release();
  const int copy = ::fcntl(render.file.get(), F_DUPFD_CLOEXEC, 0);
  if (copy == -1) throw io_error("render file: duplicate");
  return copy;
}

/// Where CRIU is to map `bo` on /dev/kfd. Only whole buffers can be mapped there.
std::uint64_t kfd_offset(const kfd_criu_bo_bucket& bo) {
  utsname kernel{};
  ::uname(&kernel);
  const UniqueFd kfd = open_kfd();
  return kfd_map_offset(bo, kernel.release, [&](std::uint64_t offset) {
    void* base = ::mmap(nullptr, bo.size, PROT_READ | PROT_WRITE, MAP_SHARED, kfd.get(),
                        static_cast<off_t>(offset));
    if (base == MAP_FAILED) return false;
    const Mapping unmapped(base, bo.size);
    return true;
  });
}

const VmaRecord* vma_at(std::uint64_t address) {
  const auto found = std::ranges::find(restored->state.vmas, address, &VmaRecord::start);
  return found == restored->state.vmas.end() ? nullptr : &*found;
}

void exchange_offset(const VmaRecord& vma, std::uint64_t& new_offset, int& fd) {
  if (vma.kind == VmaRecord::render) {
    const Place place = place_of(vma);
    new_offset = place.offset;
    fd = render_for_vma(place.file);
    return;
  }
  const kfd_criu_bo_bucket* bo = kfd_buffer_of(restored->state, vma);
  if (bo == nullptr) no_buffer(vma);
  new_offset = kfd_offset(*bo);
  fd = -1;
}

/// CRIU ignores errors of its mapping hook: the session refuses the restore unless it gets the
/// count.
void report_mapped() {
  stage("plugin-restore", "mapped");
  const UniqueFd session = connect_session(restored->criu_pid);
  request(session.get(), MessageType::vmas_mapped, {restored->state.ordinal, restored->mapped});
}

/// CRIU continues without the mapping. Only the session can refuse the restore, with the reason.
void report_lost_mapping(const std::exception& lost) noexcept {
  try {
    const UniqueFd session = connect_session(restored->criu_pid);
    send_failure(session.get(), MessageType::restore_failed, restored->state.ordinal, lost);
  } catch (const std::exception&) {
    // The session still sees that the count of mappings is too low.
  }
}

}  // namespace

UniqueFd open_kfd() {
  UniqueFd kfd(::open("/dev/kfd", O_RDWR | O_CLOEXEC));
  if (!kfd) throw io_error("/dev/kfd in the container");
  return kfd;
}

void expect_mappings(int criu_pid, ProcessState state, std::vector<RenderOffset> offsets) {
  restored = std::make_unique<RestoredProcess>(
      RestoredProcess{criu_pid, std::move(state), std::move(offsets), {}});
  for (const VmaRecord& vma : restored->state.vmas) {
    if (vma.kind == VmaRecord::render) ++restored->render[place_of(vma).file].to_come;
  }
}

std::optional<std::uint32_t> restored_ordinal() {
  if (!restored) return std::nullopt;
  return restored->state.ordinal;
}

bool update_vma(const char* path, std::uint64_t address, std::uint64_t old_offset,
                std::uint64_t& new_offset, int& fd) {
  if (!restored) return false;
  const std::string_view name(path);
  const bool render = name.starts_with("/dev/dri/renderD");
  const VmaRecord* vma = vma_at(address);
  const bool recorded = vma != nullptr && vma->pgoff == old_offset;
  // A node may have any name. One that is not recorded is another plugin's.
  const bool usual_name = render || name == "/dev/kfd";
  if (!recorded && !usual_name) return false;
  try {
    if (!recorded || (usual_name && render != (vma->kind == VmaRecord::render))) {
      throw Error(ErrorCode::corrupt, "no recorded mapping at address " + std::to_string(address));
    }
    exchange_offset(*vma, new_offset, fd);
    if (++restored->mapped == restored->state.vmas.size()) report_mapped();
  } catch (const std::exception& error) {
    report_lost_mapping(error);
    throw;
  }
  return true;
}

}  // namespace kfdcp::criu
