#include "render_objects.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/os/error.h"
#include "descriptor_place.h"
#include "render_gem.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;

constexpr std::uint64_t kAccess = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kPacketBytes = 1 << 21;
constexpr std::uint64_t kLimitNs = 20'000'000'000;

[[noreturn]] void differs(const std::string& what) { throw Error(ErrorCode::corrupt, what); }

kfdcp::GpuBo allocate(const kfdcp::GpuDevice& device, std::uint64_t size, std::uint64_t domains,
                      std::uint64_t flags) {
  amdgpu_bo_alloc_request request{};
  request.alloc_size = size;
  request.phys_alignment = kPage;
  request.preferred_heap = static_cast<std::uint32_t>(domains);
  request.flags = flags;
  amdgpu_bo_handle bo = nullptr;
  check_drm(amdgpu_bo_alloc(device.get(), &request, &bo), "allocating a BO");
  return kfdcp::GpuBo(bo);
}

kfdcp::UniqueFd export_dmabuf(const kfdcp::GpuBo& bo) {
  std::uint32_t raw = 0;
  check_drm(amdgpu_bo_export(bo.get(), amdgpu_bo_handle_type_dma_buf_fd, &raw), "sharing a BO");
  return kfdcp::UniqueFd(static_cast<int>(raw));
}

/// BOs with handles 2, 5 and 6; those between are free again.
std::list<RenderBo> make_bos(const kfdcp::GpuDevice& device, std::uint64_t small) {
  std::list<RenderBo> bos;
  const kfdcp::GpuBo first = allocate(device, kPage, AMDGPU_GEM_DOMAIN_GTT, 0);
  bos.emplace_back(device, 0, small, AMDGPU_GEM_DOMAIN_GTT, AMDGPU_GEM_CREATE_CPU_GTT_USWC);
  const kfdcp::GpuBo third = allocate(device, kPage, AMDGPU_GEM_DOMAIN_GTT, 0);
  const kfdcp::GpuBo fourth = allocate(device, kPage, AMDGPU_GEM_DOMAIN_VRAM, 0);
  bos.emplace_back(device, 1, small, AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_CREATE_NO_CPU_ACCESS);
  bos.emplace_back(device, 2, small * 3, AMDGPU_GEM_DOMAIN_VRAM | AMDGPU_GEM_DOMAIN_GTT, 0);
  return bos;
}

/// The second context; the first one's id is free again.
kfdcp::GpuContext second_context(const kfdcp::GpuDevice& device) {
  const kfdcp::GpuContext first = kfdcp::create_context(device);
  return kfdcp::create_context(device);
}

BoList list_of(const kfdcp::GpuDevice& device, std::vector<amdgpu_bo_handle>& bos) {
  amdgpu_bo_list_handle list = nullptr;
  const auto count = static_cast<std::uint32_t>(bos.size());
  check_drm(amdgpu_bo_list_create(device.get(), count, bos.data(), nullptr, &list),
            "making a BO list");
  return BoList(list);
}

/// The second list; the first one's id is free again.
BoList second_list(const kfdcp::GpuDevice& device, const std::list<RenderBo>& bos,
                   const kfdcp::GpuBo& ib, const kfdcp::GpuBo& staging) {
  std::vector<amdgpu_bo_handle> all = {ib.get(), staging.get()};
  for (const RenderBo& bo : bos) all.push_back(bo.bo.get());
  const BoList first = list_of(device, all);
  return list_of(device, all);
}

/// An SDMA linear copy: opcode 1, bytes - 1, 0, source, destination.
void append_copy(std::vector<std::uint32_t>& packets, std::uint64_t to, std::uint64_t from,
                 std::uint64_t bytes) {
  for (const std::uint64_t word :
       {std::uint64_t{1}, bytes - 1, std::uint64_t{0}, from, from >> 32, to, to >> 32}) {
    packets.push_back(static_cast<std::uint32_t>(word));
  }
}

/// `bo` as the CPU sees it through another file of the node.
kfdcp::Mapping map_through(const kfdcp::UniqueFd& file, const RenderBo& bo) {
  return map_gem(file, import_gem(file, export_dmabuf(bo.bo)), bo.size);
}

}  // namespace

RenderBo::RenderBo(const kfdcp::GpuDevice& device, std::uint32_t number, std::uint64_t size,
                   std::uint64_t domains, std::uint64_t flags)
    : number(number),
      size(size),
      bo(allocate(device, size, domains, flags)),
      gpu(device, bo, size, kAccess) {}

std::uint32_t RenderBo::handle() const { return gem_handle(bo); }

RenderObjects::RenderObjects(const std::string& node, const Pattern& pattern)
    : pattern_(pattern),
      dmabuf_(reserve_descriptor()),
      file_(open_node(node)),
      second_(open_node(node)),
      device_(kfdcp::open_gpu(file_.get())),
      bos_(make_bos(device_, kSmall)),
      ib_(kfdcp::allocate_gtt(device_, kPage)),
      staging_(kfdcp::allocate_gtt(device_, kLarge)),
      ib_gpu_(device_, ib_, kPage, kAccess | AMDGPU_VM_PAGE_EXECUTABLE),
      staging_gpu_(device_, staging_, kLarge, kAccess),
      ib_cpu_(ib_, kPage),
      staging_cpu_(staging_, kLarge),
      context_(second_context(device_)),
      list_(second_list(device_, bos_, ib_, staging_)),
      shared_(map_through(second_, bos_.front())) {
  for (RenderBo& bo : bos_) fill(bo);
  fill_descriptor(dmabuf_, export_dmabuf(bos_.front().bo));
}

void RenderObjects::fill(RenderBo& bo) {
  const auto bytes = staging_cpu_.bytes().first(bo.size);
  pattern_.write(bo.number, 0, bytes);
  copy(bo.gpu.address(), staging_gpu_.address(), bo.size);
}

void RenderObjects::check(RenderBo& bo) {
  const auto bytes = staging_cpu_.bytes().first(bo.size);
  std::ranges::fill(bytes, std::byte{0});
  copy(staging_gpu_.address(), bo.gpu.address(), bo.size);
  pattern_.check("BO " + std::to_string(bo.number), bo.number, 0, bytes);
}

void RenderObjects::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  std::vector<std::uint32_t> packets;
  for (std::uint64_t at = 0; at < bytes; at += kPacketBytes) {
    append_copy(packets, to + at, from + at, std::min(kPacketBytes, bytes - at));
  }
  const std::uint64_t submission = submit(packets, 0);
  if (submission != ++submitted_) {
    differs("submission " + std::to_string(submitted_) + " has number " +
            std::to_string(submission));
  }
  wait_for(submission);
}

/// Returns the number of the submission on that ring.
std::uint64_t RenderObjects::submit(const std::vector<std::uint32_t>& packets, std::uint32_t ring) {
  std::memcpy(ib_cpu_.bytes().data(), packets.data(), packets.size() * 4);
  amdgpu_cs_ib_info ib{};
  ib.ib_mc_address = ib_gpu_.address();
  ib.size = static_cast<std::uint32_t>(packets.size());
  amdgpu_cs_request request{};
  request.ip_type = AMDGPU_HW_IP_DMA;
  request.ring = ring;
  request.resources = list_.get();
  request.number_of_ibs = 1;
  request.ibs = &ib;
  check_drm(amdgpu_cs_submit(context_.get(), 0, &request, 1), "submitting a copy");
  return request.seq_no;
}

void RenderObjects::wait_for(std::uint64_t submission) {
  amdgpu_cs_fence fence{};
  fence.context = context_.get();
  fence.ip_type = AMDGPU_HW_IP_DMA;
  fence.fence = submission;
  std::uint32_t over = 0;
  check_drm(amdgpu_cs_query_fence_status(&fence, kLimitNs, 0, &over), "waiting for a copy");
  if (over == 0) differs("submission " + std::to_string(submission) + " does not end");
}

/// What the GPU writes through one file is seen by the CPU through the other.
void RenderObjects::check_shared() {
  const std::span seen(shared_.bytes());
  pattern_.check("shared BO", bos_.front().number, 0, seen);
  const auto bytes = staging_cpu_.bytes().first(kPage);
  std::ranges::fill(bytes, std::byte{0x5a});
  copy(bos_.front().gpu.address(), staging_gpu_.address(), kPage);
  if (!std::ranges::equal(seen.first(kPage), bytes)) differs("the two files share no BO any more");
  fill(bos_.front());
}

/// A file that has a handle of the BO gets that one again.
void RenderObjects::check_dmabuf() {
  if (import_gem(file_, dmabuf_) == bos_.front().handle()) return;
  differs("the dma-buf is no longer that of its BO");
}

void RenderObjects::start_copies() {
  std::vector<std::uint32_t> packets;
  for (int n = 0; n < 128; ++n) {
    append_copy(packets, staging_gpu_.address(), staging_gpu_.address() + kLarge / 2, kPacketBytes);
  }
  submit(packets, 1);
}

std::string RenderObjects::verify() {
  wait_for(1);  // long over, and still known
  std::string line = " handles=";
  for (RenderBo& bo : bos_) {
    line += std::to_string(bo.handle()) + ",";
    check(bo);
  }
  check_shared();
  check_dmabuf();
  const kfdcp::GpuBo next = allocate(device_, kPage, AMDGPU_GEM_DOMAIN_GTT, 0);
  if (gem_handle(next) != 4) differs("handle 4 is not the lowest free one");
  return line + " submissions=" + std::to_string(submitted_);
}

kfdcp::UniqueFd orphan_dmabuf(const std::string& node) {
  const kfdcp::UniqueFd file = open_node(node);
  const kfdcp::GpuDevice device = kfdcp::open_gpu(file.get());
  return export_dmabuf(allocate(device, kPage, AMDGPU_GEM_DOMAIN_GTT, 0));
}

}  // namespace lab
