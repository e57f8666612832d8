// The copy engine of the GPU itself: SDMA linear copies submitted through a render node.
#include <amdgpu.h>
#include <amdgpu_drm.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/copy/copy_staging.h"
#include "core/copy/sdma_buffer.h"
#include "core/copy/sdma_packets.h"
#include "core/copy/sdma_ring.h"
#include "core/drm/gpu_objects.h"
#include "core/os/error.h"

namespace kfdcp {
namespace {

// Command buffer of one slot: 256 packets, more than the largest slot or kMaxSegments frames need
// on any family.
constexpr std::size_t kIbBytes = 8192;

constexpr std::uint64_t kData = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE;
constexpr std::uint64_t kCode = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_EXECUTABLE;

class SdmaEngine final : public CopyEngine {
 public:
  SdmaEngine(int render_fd, const EngineOptions& options)
      : staging_(options),
        device_(open_gpu(render_fd)),
        rules_(sdma_rules(gpu_family(device_))),
        staging_bo_(pin_memory(device_, staging_.all())),
        staging_map_(device_, staging_bo_, staging_.all().size_bytes(), kData),
        ib_bo_(allocate_gtt(device_, kIbBytes * options.slots)),
        ib_map_(device_, ib_bo_, kIbBytes * options.slots, kCode),
        ib_cpu_(ib_bo_, kIbBytes * options.slots),
        ring_(device_),
        lists_(device_, staging_bo_.get(), ib_bo_.get()),
        submissions_(options.slots) {}
  ~SdmaEngine() override {
    for (const Submission& one : submissions_) ring_.settle(one.sequence);
  }

  std::size_t slots() const override { return staging_.slots(); }
  std::size_t slot_bytes() const override { return staging_.slot_bytes(); }
  std::span<std::byte> slot(std::size_t index) override { return staging_.slot(index); }

  std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                       std::uint64_t offset) override {
    return open(import_dmabuf(device_, dmabuf_fd, size, offset), size, offset);
  }

  std::optional<AllocatedBuffer> allocate(std::uint64_t bytes) override {
    GpuBo bo = allocate_spare_vram(device_, bytes);
    if (!bo) return std::nullopt;
    UniqueFd dmabuf = export_dmabuf(bo, bytes);
    return AllocatedBuffer{open(std::move(bo), bytes, 0), std::move(dmabuf)};
  }

  void start_read(std::span<const CopySegment> from, std::size_t slot) override {
    std::vector<Copy> copies;
    for (const CopySegment& segment : from) {
      SdmaBuffer& buffer = checked(segment);
      copies.push_back(
          {buffer.address() + segment.offset, address_of(slot, segment), segment.bytes, {&buffer}});
    }
    start(copies, slot);
  }

  void start_write(std::span<const CopySegment> to, std::size_t slot) override {
    std::vector<Copy> copies;
    for (const CopySegment& segment : to) {
      SdmaBuffer& buffer = checked(segment);
      copies.push_back(
          {address_of(slot, segment), buffer.address() + segment.offset, segment.bytes, {&buffer}});
    }
    start(copies, slot);
  }

  void start_move(std::span<const CopyMove> moves, std::size_t slot) override {
    std::vector<Copy> copies;
    for (const CopyMove& move : moves) {
      SdmaBuffer& from = ours(*move.from);
      SdmaBuffer& to = ours(*move.to);
      check_move(move, from.size(), to.size());
      copies.push_back({from.address() + move.from_offset,
                        to.address() + move.to_offset,
                        move.bytes,
                        {&from, &to}});
    }
    start(copies, slot);
  }

  void wait(std::size_t slot) override {
    (void)staging_.slot(slot);
    Submission& copy = submissions_[slot];
    if (!copy.in_flight) return;
    try {
      ring_.wait(copy.sequence, copy.bytes);
    } catch (const Error& error) {
      // A failed copy has ended. A copy that timed out may still touch the slot.
      copy.in_flight = error.err == ETIMEDOUT;
      throw;
    }
    copy.in_flight = false;
  }

 private:
  struct Submission {
    std::uint64_t sequence = 0;
    std::size_t bytes = 0;
    bool in_flight = false;
  };

  /// By GPU addresses, and the buffers that they are of.
  struct Copy {
    std::uint64_t from;
    std::uint64_t to;
    std::size_t bytes;
    std::array<SdmaBuffer*, 2> buffers;
  };

  std::unique_ptr<SdmaBuffer> open(GpuBo bo, std::uint64_t size, std::uint64_t offset) {
    return std::make_unique<SdmaBuffer>(device_, ring_, lists_, std::move(bo), size, offset);
  }

  SdmaBuffer& ours(DeviceBuffer& any) const {
    auto& buffer = dynamic_cast<SdmaBuffer&>(any);
    if (buffer.ring() != &ring_) {
      throw Error(ErrorCode::gpu, "sdma copy: the buffer is another engine's");
    }
    return buffer;
  }

  SdmaBuffer& checked(const CopySegment& segment) const {
    SdmaBuffer& buffer = ours(*segment.buffer);
    check_segment(staging_, segment, buffer.size());
    return buffer;
  }

  std::uint64_t address_of(std::size_t slot, const CopySegment& segment) const {
    return staging_map_.address() + slot * staging_.slot_bytes() + segment.slot_offset;
  }

  /// One submission.
  void start(std::span<const Copy> copies, std::size_t slot) {
    (void)staging_.slot(slot);
    check_count(copies.size());
    if (submissions_[slot].in_flight) {
      throw Error(ErrorCode::gpu, "sdma copy in slot " + std::to_string(slot) + ": it is busy");
    }
    const std::size_t ib_offset = slot * kIbBytes;
    const std::span<std::uint32_t> ib(
        reinterpret_cast<std::uint32_t*>(ib_cpu_.bytes().subspan(ib_offset).data()),
        kIbBytes / sizeof(std::uint32_t));
    std::vector<amdgpu_bo_handle> bos;
    std::uint32_t dwords = 0;
    std::size_t bytes = 0;
    for (const Copy& copy : copies) {
      dwords += sdma_linear_copy(rules_, ib.subspan(dwords), copy.from, copy.to, copy.bytes);
      bytes += copy.bytes;
      for (const SdmaBuffer* buffer : copy.buffers) {
        if (buffer == nullptr) continue;
        if (std::find(bos.begin(), bos.end(), buffer->bo()) == bos.end())
          bos.push_back(buffer->bo());
      }
    }
    const std::uint64_t sequence =
        ring_.submit(lists_.of(std::move(bos)), ib_map_.address() + ib_offset, dwords, bytes);
    for (const Copy& copy : copies) {
      for (SdmaBuffer* buffer : copy.buffers) {
        if (buffer != nullptr) buffer->used_by(sequence);
      }
    }
    submissions_[slot] = {.sequence = sequence, .bytes = bytes, .in_flight = true};
  }

  Staging staging_;
  GpuDevice device_;
  SdmaRules rules_;
  GpuBo staging_bo_;
  GpuMapping staging_map_;
  GpuBo ib_bo_;
  GpuMapping ib_map_;
  GpuCpuMapping ib_cpu_;
  SdmaRing ring_;
  SdmaBoLists lists_;
  std::vector<Submission> submissions_;  // by slot
};

}  // namespace

std::unique_ptr<CopyEngine> make_sdma_engine(int render_fd, const EngineOptions& options) {
  return std::make_unique<SdmaEngine>(render_fd, options);
}

}  // namespace kfdcp
