#include "criu-plugin/restore.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/kfd/kfd.h"
#include "core/kfd/kfd_maps.h"
#include "core/kfd/state_file.h"
#include "core/os/error.h"
#include "core/wire/image_files.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/action_script.h"
#include "criu-plugin/log.h"
#include "criu-plugin/request.h"
#include "criu-plugin/restore_render.h"
#include "criu-plugin/sharing.h"
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
  std::uint32_t ordinal;
  ProcessState state;                 // buckets carry restored_offset
  std::vector<RenderOffset> offsets;  // of buffers that are not KFD's
  std::map<FileKey, MappedFile> render;
  std::size_t mapped = 0;
};

int criu_pid = -1;
bool expects_session = false;
std::unique_ptr<RestoredProcess> restored;

bool image_has(const char* name) { return ::faccessat(image_directory(), name, F_OK, 0) == 0; }
bool image_has_gpu_state() { return image_has(kManifestName); }

/// The GPU of a render mapping. An image of a process with one GPU need not name it.
std::uint32_t gpu_of(const ProcessState& state, const VmaRecord& vma) {
  if (vma.gpu_id != 0 || state.devices.size() != 1) return vma.gpu_id;
  return state.devices.front().user_gpu_id;
}

UniqueFd open_kfd() {
  UniqueFd kfd(::open("/dev/kfd", O_RDWR | O_CLOEXEC));
  if (!kfd) throw io_error("/dev/kfd in the container");
  return kfd;
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

/// The state in an answer, which must be that of this task.
ProcessState state_of_this_task(const Message& answer) {
  ProcessState state = decode_state(read_memfd(answer.fds[0].get(), kMaxStateBytes));
  if (state.ns_pid == static_cast<std::uint32_t>(::getpid())) return state;
  throw Error(ErrorCode::unsupported, "the GPU state of pid " + std::to_string(state.ns_pid) +
                                          " was asked for in pid " + std::to_string(::getpid()));
}

/// What is left when KFD's BOs are there again: `dmabufs` are those of its own, `shared` of others.
void restore_rest(int socket, ProcessState state, const Dmabufs& dmabufs, const Dmabufs& shared) {
  const std::uint32_t ordinal = state.ordinal;
  std::vector<RenderOffset> offsets = restore_render_files(socket, state, dmabufs, shared);
  const Message known = request(socket, MessageType::restored, {ordinal, 1});
  restored = std::make_unique<RestoredProcess>(
      RestoredProcess{ordinal, std::move(state), std::move(offsets), {}});
  for (const VmaRecord& vma : restored->state.vmas) {
    if (vma.kind == VmaRecord::render) ++restored->render[place_of(vma).file].to_come;
  }
  log_info("restored the GPU state of process " + std::to_string(ordinal) +
           "; session log: " + known.text);
}

UniqueFd restore_kfd(int socket, Message& answer) {
  const auto ordinal = static_cast<std::uint32_t>(answer.args[1]);
  if (answer.fds.empty()) {  // the process had nothing of KFD's
    UniqueFd kfd = open_kfd();
    request(socket, MessageType::restored, {ordinal, 0});
    return kfd;
  }
  if (restored) {
    if (restored->ordinal == ordinal) return open_kfd();  // a further file of the same process
    throw Error(ErrorCode::unsupported, "one task was asked to restore two KFD processes");
  }
  ProcessState state = state_of_this_task(answer);
  std::vector<UniqueFd> render;
  std::vector<int> drm_fds;
  for (const kfd_criu_device_bucket& device : state.devices) {
    render.push_back(render_file(socket, ordinal, device.user_gpu_id, 0));
    drm_fds.push_back(render.back().get());
  }

  UniqueFd kfd = open_kfd();
  const Dmabufs dmabufs = kfd::restore(kfd.get(), state, drm_fds);
  kfd::age_events(kfd.get());
  send_buffers(socket, MessageType::restore_buffers, ordinal, dmabufs);
  const Dmabufs shared = import_shared(socket, kfd.get(), ordinal, state);
  restore_rest(socket, std::move(state), dmabufs, shared);
  return kfd;
}

/// A render file of a process without KFD, whose files all come back with the first.
UniqueFd restore_drm(int socket, Message& answer) {
  if (!restored) {
    if (answer.fds.empty()) throw Error(ErrorCode::protocol, "the session sent no state");
    restore_rest(socket, state_of_this_task(answer), {}, {});
  }
  return render_file(socket, answer.args[1], answer.args[2], answer.args[3]);
}

/// A dma-buf, whoever owns its buffer. This task may have to make its own buffers first: CRIU opens
/// files in the order of their descriptors, and the other processes may be waiting for them.
UniqueFd restore_dmabuf(int id, Message& answer) {
  if (!answer.fds.empty()) return std::move(answer.fds[0]);
  if (restored) throw Error(ErrorCode::protocol, "the session has no dma-buf");
  // CRIU gets a file of its own when it asks for this one: what was restored is the process's.
  const UniqueFd first(restore_file(static_cast<int>(answer.args[1])));
  return UniqueFd(restore_file(id));
}

/// The mapping's descriptor. CRIU gives every device mapping a file id of its own
/// (criu/file-ids.c, fd_id_generate_special), so it takes one descriptor for each and closes it
/// after mapping. Any other would stay open in the application: the last gets the original.
int render_for_vma(const FileKey& key) {
  MappedFile& render = restored->render.at(key);
  if (!render.file) {
    const UniqueFd session = connect_session(criu_pid);
    render.file = render_file(session.get(), restored->ordinal, key.first, key.second);
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

/// CRIU ignores errors of its mapping hook: the session refuses the restore unless it hears the
/// count.
void tell_mapped() {
  const UniqueFd session = connect_session(criu_pid);
  request(session.get(), MessageType::vmas_mapped, {restored->ordinal, restored->mapped});
}

/// CRIU goes on without the mapping: only the session can refuse the restore, and say why.
void tell_lost_mapping(const std::exception& lost) noexcept {
  try {
    const UniqueFd session = connect_session(criu_pid);
    send_failure(session.get(), MessageType::restore_failed, restored->ordinal, lost);
  } catch (const std::exception&) {
    // It misses the mapping in the count all the same.
  }
}

}  // namespace

void begin_restore() {
  criu_pid = ::getpid();
  // A half-written image counts, too: the session says what is wrong with it.
  if (!image_has_gpu_state() && !image_has("kfd-state-0.img")) return;
  add_action_script();
  expects_session = true;
}

void end_restore() noexcept {
  try {
    if (expects_session) remove_dead_session(criu_pid);
  } catch (const std::exception& error) {
    log_error(describe(error));
  }
}

int restore_file(int id) {
  if (!image_has_gpu_state()) return -ENOTSUP;
  const UniqueFd session = connect_session(criu_pid);
  const auto pid = static_cast<std::uint64_t>(::getpid());
  Message answer =
      request(session.get(), MessageType::open_file, {static_cast<std::uint64_t>(id), pid});
  try {
    switch (static_cast<FileKind>(answer.args[0])) {
      case FileKind::none:
        return -ENOTSUP;
      case FileKind::render:
        return render_file(session.get(), answer.args[1], answer.args[2], answer.args[3]).release();
      case FileKind::drm:
        return restore_drm(session.get(), answer).release();
      case FileKind::kfd:
        return restore_kfd(session.get(), answer).release();
      case FileKind::dmabuf:
        return restore_dmabuf(id, answer).release();
    }
    throw Error(ErrorCode::protocol, "the session named an unknown kind of file");
  } catch (const std::exception& error) {
    send_failure(session.get(), MessageType::restore_failed, answer.args[1], error);
    throw;
  }
}

bool update_vma(const char* path, std::uint64_t address, std::uint64_t old_offset,
                std::uint64_t& new_offset, int& fd) {
  const std::string_view name(path);
  const bool render = name.starts_with("/dev/dri/renderD");
  if ((!render && name != "/dev/kfd") || !restored) return false;
  try {
    const VmaRecord* vma = vma_at(address);
    if (vma == nullptr || vma->pgoff != old_offset || render != (vma->kind == VmaRecord::render)) {
      throw Error(ErrorCode::corrupt, "no recorded mapping at address " + std::to_string(address));
    }
    exchange_offset(*vma, new_offset, fd);
    if (++restored->mapped == restored->state.vmas.size()) tell_mapped();
  } catch (const std::exception& error) {
    tell_lost_mapping(error);
    throw;
  }
  return true;
}

}  // namespace kfdcp::criu
