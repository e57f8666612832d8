#include "criu-plugin/restore.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/image_files.h"
#include "core/kfd.h"
#include "core/kfd_maps.h"
#include "core/session_socket.h"
#include "core/wire.h"
#include "criu-plugin/abi.h"
#include "criu-plugin/action_script.h"
#include "criu-plugin/log.h"
#include "criu-plugin/request.h"
#include "criu-plugin/sharing.h"

namespace kfdcp::criu {

namespace {

constexpr std::size_t kMaxStateBytes = 1u << 30;

/// The render file of one GPU, for the mappings of it.
struct MappedFile {
  UniqueFd file;        // taken at the first mapping, given away at the last
  std::size_t to_come;  // mappings
};

/// What UPDATE_VMA_MAP needs to know about this task.
struct RestoredProcess {
  std::uint32_t ordinal;
  ProcessState state;                          // buckets carry restored_offset
  std::map<std::uint32_t, MappedFile> render;  // by the gpu_id of the BO buckets
  std::size_t mapped = 0;
};

int criu_pid = -1;
std::unique_ptr<RestoredProcess> restored;

/// Comes back to the working directory it was made in.
class WorkingDirectory {
 public:
  WorkingDirectory() : here_(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!here_) throw io_error("working directory");
  }
  ~WorkingDirectory() {
    if (::fchdir(here_.get()) == -1) log_error("cannot return to the working directory");
  }

 private:
  UniqueFd here_;
};

/// The task sees neither the host's files nor its abstract sockets, but it inherits a descriptor of
/// the host's /proc, and /proc/PID/root of CRIU leads to the session. Which service descriptor that
/// is differs between versions (4 to 8 in 4.0 to 4.2), so it is recognised by what it leads to.
UniqueFd connect_session() {
  const std::string relative = std::to_string(criu_pid) + "/root" + session_socket(criu_pid);
  const WorkingDirectory restore_directory;
  for (int type = 4; type <= 8; ++type) {
    const int fd = service_descriptor(type);
    struct statfs info {};
    if (fd < 0 || ::fstatfs(fd, &info) == -1 || info.f_type != PROC_SUPER_MAGIC) continue;
    if (::fchdir(fd) == -1 || ::access(relative.c_str(), F_OK) == -1) continue;
    return connect_socket(relative);
  }
  throw Error(ErrorCode::io, "no session is running for this restore: " + session_socket(criu_pid),
              ENOENT);
}

bool image_has(const char* name) { return ::faccessat(image_directory(), name, F_OK, 0) == 0; }
bool image_has_gpu_state() { return image_has(kManifestName); }

/// The GPU of a render mapping. An image of a process with one GPU need not name it.
std::uint32_t gpu_of(const ProcessState& state, const VmaRecord& vma) {
  if (vma.gpu_id != 0 || state.devices.size() != 1) return vma.gpu_id;
  return state.devices.front().user_gpu_id;
}

std::map<std::uint32_t, MappedFile> files_to_map(const ProcessState& state) {
  std::map<std::uint32_t, MappedFile> files;
  for (const VmaRecord& vma : state.vmas) {
    if (vma.kind == VmaRecord::render) ++files[gpu_of(state, vma)].to_come;
  }
  return files;
}

UniqueFd open_kfd() {
  UniqueFd kfd(::open("/dev/kfd", O_RDWR | O_CLOEXEC));
  if (!kfd) throw io_error("/dev/kfd in the container");
  return kfd;
}

/// The one render file that carries the memory of this process on one GPU. Whichever of its files
/// comes back first opens it, and the session keeps a copy for the others. It must be opened here:
/// the mount of a file from outside the container is unknown to CRIU at the next checkpoint.
UniqueFd render_file(int socket, std::uint64_t ordinal, std::uint64_t gpu_id) {
  Message known = request(socket, MessageType::render_file, {ordinal, gpu_id});
  if (known.fds.size() == 1) return std::move(known.fds[0]);
  UniqueFd render(::open(known.text.c_str(), O_RDWR | O_CLOEXEC));
  if (!render) throw io_error(known.text + " in the container");
  request(socket, MessageType::render_opened, {ordinal, gpu_id}, {render.get()});
  return render;
}

UniqueFd restore_kfd(int socket, Message& answer) {
  const auto ordinal = static_cast<std::uint32_t>(answer.args[1]);
  if (restored) {
    if (restored->ordinal == ordinal) return open_kfd();  // a further file of the same process
    throw Error(ErrorCode::unsupported, "one task was asked to restore two KFD processes");
  }
  if (answer.fds.empty()) {  // the process had nothing on the GPU
    UniqueFd kfd = open_kfd();
    request(socket, MessageType::restored, {ordinal});
    return kfd;
  }
  ProcessState state = decode_state(read_memfd(answer.fds[0].get(), kMaxStateBytes));
  if (state.ns_pid != static_cast<std::uint32_t>(::getpid())) {
    throw Error(ErrorCode::unsupported, "the KFD state of pid " + std::to_string(state.ns_pid) +
                                            " was asked for in pid " + std::to_string(::getpid()));
  }
  std::vector<UniqueFd> render;
  std::vector<int> drm_fds;
  for (const kfd_criu_device_bucket& device : state.devices) {
    render.push_back(render_file(socket, ordinal, device.user_gpu_id));
    drm_fds.push_back(render.back().get());
  }

  UniqueFd kfd = open_kfd();
  const auto dmabufs = kfd::restore(kfd.get(), state, drm_fds);
  send_buffers(socket, MessageType::restore_buffers, ordinal, dmabufs);
  import_shared(socket, kfd.get(), ordinal, state);
  const Message known = request(socket, MessageType::restored, {ordinal});
  restored = std::make_unique<RestoredProcess>(RestoredProcess{ordinal, std::move(state), {}});
  restored->render = files_to_map(restored->state);
  log_info("restored the KFD state of process " + std::to_string(ordinal) +
           "; session log: " + known.text);
  return kfd;
}

/// The mapping's descriptor. CRIU gives every device mapping a file id of its own
/// (criu/file-ids.c, fd_id_generate_special), so it takes one descriptor for each and closes it
/// after mapping. Any other would stay open in the application: the last gets the original.
int render_for_vma(std::uint32_t gpu_id) {
  MappedFile& render = restored->render.at(gpu_id);
  if (!render.file) {
    const UniqueFd session = connect_session();
    render.file = render_file(session.get(), restored->ordinal, gpu_id);
  }
  if (render.to_come == 0) throw Error(ErrorCode::protocol, "more mappings than recorded");
  if (--render.to_come == 0) return render.file.release();
  const int copy = ::fcntl(render.file.get(), F_DUPFD_CLOEXEC, 0);
  if (copy == -1) throw io_error("render file: duplicate");
  return copy;
}

/// The buffer of a mapping. Offsets on /dev/kfd carry their GPU, those on render nodes do not.
const kfd_criu_bo_bucket* bo_of(const VmaRecord& vma) {
  if (vma.kind == VmaRecord::kfd) return kfd_buffer_of(restored->state, vma);
  const std::uint32_t gpu_id = gpu_of(restored->state, vma);
  for (const kfd_criu_bo_bucket& bo : restored->state.bos) {
    if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0) continue;
    if (bo.gpu_id != gpu_id) continue;
    if (vma.pgoff >= bo.offset && vma.pgoff - bo.offset < bo.size) return &bo;
  }
  return nullptr;
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

}  // namespace

void begin_restore() {
  criu_pid = ::getpid();
  // A half-written image counts, too: the session says what is wrong with it.
  if (image_has_gpu_state() || image_has("kfd-state-0.img")) add_action_script();
}

int restore_file(int id) {
  if (!image_has_gpu_state()) return -ENOTSUP;
  const UniqueFd session = connect_session();
  Message answer = request(session.get(), MessageType::open_file, {static_cast<std::uint64_t>(id)});
  try {
    switch (static_cast<FileKind>(answer.args[0])) {
      case FileKind::none:
        return -ENOTSUP;
      case FileKind::render:
        return render_file(session.get(), answer.args[1], answer.args[2]).release();
      case FileKind::kfd:
        return restore_kfd(session.get(), answer).release();
    }
    throw Error(ErrorCode::protocol, "the session named an unknown kind of file");
  } catch (const Error& error) {
    send_message(session.get(), MessageType::restore_failed, {answer.args[1]}, error.what(), {});
    throw;
  }
}

bool update_vma(const char* path, std::uint64_t address, std::uint64_t old_offset,
                std::uint64_t& new_offset, int& fd) {
  const std::string_view name(path);
  const bool render = name.starts_with("/dev/dri/renderD");
  if ((!render && name != "/dev/kfd") || !restored) return false;
  const VmaRecord* vma = vma_at(address);
  const kfd_criu_bo_bucket* bo = vma == nullptr ? nullptr : bo_of(*vma);
  if (bo == nullptr || vma->pgoff != old_offset || render != (vma->kind == VmaRecord::render)) {
    throw Error(ErrorCode::corrupt,
                "no recorded buffer for the mapping at address " + std::to_string(address));
  }
  new_offset = render ? bo->restored_offset + (old_offset - bo->offset) : kfd_offset(*bo);
  fd = render ? render_for_vma(bo->gpu_id) : -1;
  if (++restored->mapped == restored->state.vmas.size()) {
    // CRIU ignores errors of this hook: the session refuses the restore unless it hears the count.
    const UniqueFd session = connect_session();
    request(session.get(), MessageType::vmas_mapped, {restored->ordinal, restored->mapped});
  }
  return true;
}

}  // namespace kfdcp::criu
