#include "core/kfd/state.h"

#include <cstring>
#include <limits>
#include <string>

#include "core/kfd/state_file.h"
#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::uint64_t kPageBytes = 4096;  // of an address of /proc/PID/maps, on every host

/// docs/image-format.md, "State file". Followed by the sections in the order of their counts and by
/// XXH3-64 of all before it.
struct Header {
  StatePrefix prefix;
  std::uint32_t ordinal;
  std::uint32_t ns_pid;
  std::uint32_t num_objects;
  std::uint32_t num_devices;
  std::uint32_t num_bos;
  std::uint32_t num_vmas;
  std::uint64_t priv_bytes;
  std::uint32_t device_bytes;
  std::uint32_t bo_bytes;
  std::uint32_t vma_bytes;
  std::uint8_t reserved[44];
};
static_assert(sizeof(Header) == 128);
static_assert(sizeof(kfd_criu_device_bucket) == 16);
static_assert(sizeof(kfd_criu_bo_bucket) == 48);
static_assert(sizeof(VmaRecord) == 32);

constexpr StateKind kKind{
    "state file", {'K', 'F', 'D', 'S', 'T', 'A', 'T', 'E'}, 1, sizeof(Header)};

/// Why `vmas` cannot belong to one process, or null.
const char* vma_fault(const std::vector<VmaRecord>& vmas) {
  std::uint64_t end = 0;
  for (const VmaRecord& vma : vmas) {
    if ((vma.start | vma.end | vma.pgoff) % kPageBytes != 0) return "mapping not of whole pages";
    if (vma.start >= vma.end) return "empty mapping";
    if (vma.start < end) return "mappings overlap or are out of order";
    if (vma.kind > VmaRecord::render) return "mapping of an unknown kind";
    if (vma.kind == VmaRecord::kfd && vma.gpu_id != 0) return "mapping of KFD with a GPU";
    end = vma.end;
  }
  return nullptr;
}

/// The size of the file that `header` describes. Counts are 32-bit and records small, so only
/// priv_bytes can overflow.
std::uint64_t file_bytes(const Header& header) {
  const std::uint64_t fixed =
      sizeof(Header) + header.num_devices * std::uint64_t{sizeof(kfd_criu_device_bucket)} +
      header.num_bos * std::uint64_t{sizeof(kfd_criu_bo_bucket)} +
      header.num_vmas * std::uint64_t{sizeof(VmaRecord)} + sizeof(std::uint64_t);
  if (header.priv_bytes > std::numeric_limits<std::uint64_t>::max() - fixed) {
    kKind.corrupt("bad size of the private data");
  }
  return fixed + header.priv_bytes;
}

void check_counts(const Header& header) {
  if (header.device_bytes != sizeof(kfd_criu_device_bucket) ||
      header.bo_bytes != sizeof(kfd_criu_bo_bucket) || header.vma_bytes != sizeof(VmaRecord)) {
    kKind.corrupt("bad record size");
  }
  if (file_bytes(header) != header.prefix.file_bytes) {
    kKind.corrupt("counts do not add up to its length");
  }
  kKind.check_count(header.num_devices, kMaxStateDevices);
  kKind.check_count(header.num_bos);
  kKind.check_count(header.num_vmas);
}

}  // namespace

std::vector<std::byte> encode_state(const ProcessState& state) {
  if (const char* fault = vma_fault(state.vmas)) {
    throw Error(ErrorCode::protocol, std::string("state file: ") + fault);
  }
  Header header{};
  header.prefix = kKind.prefix();
  header.ordinal = state.ordinal;
  header.ns_pid = state.ns_pid;
  header.num_objects = state.num_objects;
  header.num_devices = kKind.count(state.devices.size(), kMaxStateDevices);
  header.num_bos = kKind.count(state.bos.size());
  header.num_vmas = kKind.count(state.vmas.size());
  header.priv_bytes = state.priv.size();
  header.device_bytes = sizeof(kfd_criu_device_bucket);
  header.bo_bytes = sizeof(kfd_criu_bo_bucket);
  header.vma_bytes = sizeof(VmaRecord);
  header.prefix.file_bytes = file_bytes(header);

  std::vector<std::byte> out(header.prefix.file_bytes);
  std::span<std::byte> rest(out);
  put<Header>(rest, {&header, 1});
  for (kfd_criu_device_bucket device : state.devices) {
    device.drm_fd = KFD_INVALID_FD;
    put<kfd_criu_device_bucket>(rest, {&device, 1});
  }
  for (kfd_criu_bo_bucket bo : state.bos) {
    bo.dmabuf_fd = KFD_INVALID_FD;
    put<kfd_criu_bo_bucket>(rest, {&bo, 1});
  }
  put<VmaRecord>(rest, state.vmas);
  put<std::byte>(rest, state.priv);
  put_sum(out, rest);
  return out;
}

void check_state_head(std::span<const std::byte> head, std::uint64_t bytes) {
  kKind.head<Header>(head, bytes, check_counts);
}

ProcessState decode_state(std::span<const std::byte> bytes) {
  std::span<const std::byte> rest;
  const auto header = kKind.open<Header>(bytes, rest, check_counts);

  ProcessState state;
  state.ordinal = header.ordinal;
  state.ns_pid = header.ns_pid;
  state.num_objects = header.num_objects;
  state.devices = take<kfd_criu_device_bucket>(rest, header.num_devices);
  state.bos = take<kfd_criu_bo_bucket>(rest, header.num_bos);
  state.vmas = take<VmaRecord>(rest, header.num_vmas);
  state.priv = take<std::byte>(rest, header.priv_bytes);
  for (const kfd_criu_device_bucket& device : state.devices) {
    if (device.drm_fd != KFD_INVALID_FD) kKind.corrupt("device with a descriptor");
  }
  for (const kfd_criu_bo_bucket& bo : state.bos) {
    if (bo.dmabuf_fd != KFD_INVALID_FD) kKind.corrupt("BO with a descriptor");
    if (bo.size > kMaxBoBytes) kKind.corrupt("BO larger than any memory");
  }
  if (const char* fault = vma_fault(state.vmas)) kKind.corrupt(fault);
  return state;
}

}  // namespace kfdcp
