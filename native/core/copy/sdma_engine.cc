// The copy engine of the GPU itself: SDMA linear copies submitted through a render node.
#include <amdgpu.h>

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
#include "core/copy/sdma_rings.h"
#include "core/copy/sdma_slots.h"
#include "core/drm/gpu_objects.h"
#include "core/os/error.h"

namespace kfdcp {
namespace {

class SdmaEngine final : public CopyEngine {
 public:
  SdmaEngine(int render_fd, const EngineOptions& options)
      : staging_(options),
        device_(open_gpu(render_fd)),
        rules_(sdma_rules(gpu_family(device_))),
        slots_(device_, staging_),
        rings_(device_),
        submissions_(options.slots) {}
  ~SdmaEngine() override {
    for (const Submission& one : submissions_) rings_.settle(one.fence);
  }

  std::size_t slots() const override { return staging_.slots(); }
  std::size_t slot_bytes() const override { return staging_.slot_bytes(); }
  std::span<std::byte> slot(std::size_t index) override { return staging_.slot(index); }
  std::size_t copy_slots() const override { return staging_.copy_slots(); }

  std::unique_ptr<DeviceBuffer> import(int dmabuf_fd, std::uint64_t size,
                                       std::optional<std::uint64_t> offset) override {
    return open(import_dmabuf(device_, dmabuf_fd, size, offset), size, offset.value_or(0));
  }

  std::optional<AllocatedBuffer> allocate(std::uint64_t bytes) override {
    GpuBo bo = allocate_spare_vram(device_, bytes);
    if (!bo) return std::nullopt;
    UniqueFd dmabuf = export_dmabuf(bo, bytes);
    return AllocatedBuffer{open(std::move(bo), bytes, 0), std::move(dmabuf)};
  }

  void start_read(std::span<const CopySegment> from) override {
    std::vector<Copy> copies;
    for (const CopySegment& segment : from) {
      SdmaBuffer& buffer = checked(segment);
      copies.push_back(
          {buffer.address() + segment.offset, address_of(segment), segment.bytes, {&buffer}});
    }
    start(copies, slots_of(from));
  }

  void start_write(std::span<const CopySegment> to) override {
    std::vector<Copy> copies;
    for (const CopySegment& segment : to) {
      SdmaBuffer& buffer = checked(segment);
      copies.push_back(
          {address_of(segment), buffer.address() + segment.offset, segment.bytes, {&buffer}});
    }
    start(copies, slots_of(to));
  }

  void start_move(std::span<const CopyMove> moves, std::size_t slot) override {
    check_count(moves.size());
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
    submit(copies, {slot}, {slots_.commands_handle()});
  }

  void wait(std::size_t slot) override {
    (void)staging_.slot(slot);
    const Submission copy = submissions_[slot];
    if (!copy.in_flight) return;
    try {
      rings_.wait(copy.fence, copy.bytes);
    } catch (const Error& error) {
      // A failed copy has ended. A copy that timed out may still touch its slots.
      if (error.err != ETIMEDOUT) ended(copy.fence);
      throw;
    }
    ended(copy.fence);
  }

 private:
  struct Submission {
    SdmaFence fence{};
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
    return std::make_unique<SdmaBuffer>(device_, rings_, std::move(bo), size, offset);
  }

  SdmaBuffer& ours(DeviceBuffer& any) const {
    auto& buffer = dynamic_cast<SdmaBuffer&>(any);
    if (buffer.rings() != &rings_) {
      throw Error(ErrorCode::gpu, "sdma copy: the buffer is another engine's");
    }
    return buffer;
  }

  SdmaBuffer& checked(const CopySegment& segment) const {
    SdmaBuffer& buffer = ours(*segment.buffer);
    check_segment(staging_, segment, buffer.size());
    return buffer;
  }

  std::uint64_t address_of(const CopySegment& segment) const {
    return slots_.address(segment.slot) + segment.slot_offset;
  }

  void start(std::span<const Copy> copies, const std::vector<std::size_t>& slots) {
    std::vector<std::uint32_t> bos{slots_.commands_handle()};
    for (const std::size_t slot : slots) bos.push_back(slots_.handle(slot));
    submit(copies, slots, std::move(bos));
  }

  /// One submission, with the commands of the first slot. `bos`: what it touches beside buffers.
  void submit(std::span<const Copy> copies, const std::vector<std::size_t>& slots,
              std::vector<std::uint32_t> bos) {
    for (const std::size_t slot : slots) check_idle(slot);
    const std::span<std::uint32_t> commands = slots_.commands(slots.front());
    std::uint32_t dwords = 0;
    std::size_t bytes = 0;
    for (const Copy& copy : copies) {
      dwords += sdma_linear_copy(rules_, commands.subspan(dwords), copy.from, copy.to, copy.bytes);
      bytes += copy.bytes;
      for (const SdmaBuffer* buffer : copy.buffers) {
        if (buffer != nullptr) bos.push_back(buffer->handle());
      }
    }
    std::sort(bos.begin(), bos.end());
    bos.erase(std::unique(bos.begin(), bos.end()), bos.end());
    const SdmaFence fence =
        rings_.submit(bos, slots_.commands_address(slots.front()), dwords, bytes);
    for (const Copy& copy : copies) {
      for (SdmaBuffer* buffer : copy.buffers) {
        if (buffer != nullptr) buffer->used_by(fence);
      }
    }
    for (const std::size_t slot : slots) {
      submissions_[slot] = {.fence = fence, .bytes = bytes, .in_flight = true};
    }
  }

  void check_idle(std::size_t slot) const {
    (void)staging_.slot(slot);
    if (submissions_[slot].in_flight) {
      throw Error(ErrorCode::gpu, "sdma copy in slot " + std::to_string(slot) + ": it is busy");
    }
  }

  void ended(const SdmaFence& fence) {
    for (Submission& one : submissions_) {
      if (one.fence == fence) one.in_flight = false;
    }
  }

  Staging staging_;
  GpuDevice device_;
  SdmaRules rules_;
  SdmaSlots slots_;
  SdmaRings rings_;
  std::vector<Submission> submissions_;  // by slot
};

}  // namespace

std::unique_ptr<CopyEngine> make_sdma_engine(int render_fd, const EngineOptions& options) {
  return std::make_unique<SdmaEngine>(render_fd, options);
}

}  // namespace kfdcp
