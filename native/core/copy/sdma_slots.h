// The slots of a staging ring, as the GPU knows them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>

#include "core/copy/copy_staging.h"
#include "core/drm/gpu_objects.h"

namespace kfdcp {

/// Each slot is a BO of its own, and has room for commands. The kernel looks up all pages of each
/// BO of user memory that a submission lists, whether it touches them or not
/// (amdgpu_cs.c:amdgpu_cs_parser_bos@7.3.4).
class SdmaSlots {
 public:
  /// `staging` must outlive it. Throws Error{gpu}.
  SdmaSlots(const GpuDevice& device, const Staging& staging);

  /// GPU address and GEM handle of a slot's memory.
  std::uint64_t address(std::size_t slot) const { return slots_.at(slot).mapping.address(); }
  std::uint32_t handle(std::size_t slot) const { return slots_.at(slot).handle; }

  /// The same of its commands; one BO holds those of all slots.
  std::uint64_t commands_address(std::size_t slot) const;
  std::uint32_t commands_handle() const { return commands_handle_; }
  std::span<std::uint32_t> commands(std::size_t slot) const;

 private:
  struct Slot {
    Slot(const GpuDevice& device, std::span<std::byte> memory);
    GpuBo bo;
    std::uint32_t handle;
    GpuMapping mapping;
  };

  std::deque<Slot> slots_;
  GpuBo commands_;
  std::uint32_t commands_handle_;
  GpuMapping commands_map_;
  GpuCpuMapping commands_cpu_;
};

}  // namespace kfdcp
