#include "core/copy/sdma_slots.h"

#include <amdgpu_drm.h>

namespace kfdcp {
namespace {

// Commands of one copy: 256 packets, which is kMaxSegments frames in kMaxCopySlots slots. The
// largest slot takes fewer on any family.
constexpr std::size_t kCommandBytes = 8192;

constexpr std::uint64_t kData = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE;
constexpr std::uint64_t kCode = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_EXECUTABLE;

}  // namespace

SdmaSlots::Slot::Slot(const GpuDevice& device, std::span<std::byte> memory)
    : bo(pin_memory(device, memory)),
      handle(gem_handle(bo)),
      mapping(device, bo, memory.size_bytes(), kData) {}

SdmaSlots::SdmaSlots(const GpuDevice& device, const Staging& staging)
    : commands_(allocate_gtt(device, kCommandBytes * staging.slots())),
      commands_handle_(gem_handle(commands_)),
      commands_map_(device, commands_, kCommandBytes * staging.slots(), kCode),
      commands_cpu_(commands_, kCommandBytes * staging.slots()) {
  for (std::size_t slot = 0; slot < staging.slots(); ++slot) {
    slots_.emplace_back(device, staging.slot(slot));
  }
}

std::uint64_t SdmaSlots::commands_address(std::size_t slot) const {
  return commands_map_.address() + slot * kCommandBytes;
}

std::span<std::uint32_t> SdmaSlots::commands(std::size_t slot) const {
  const auto bytes = commands_cpu_.bytes().subspan(slot * kCommandBytes, kCommandBytes);
  return {reinterpret_cast<std::uint32_t*>(bytes.data()), kCommandBytes / sizeof(std::uint32_t)};
}

}  // namespace kfdcp
