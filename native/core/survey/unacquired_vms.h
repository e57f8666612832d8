// GPUs whose VM a process has not acquired.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/survey/survey.h"

namespace kfdcp {

/// gpu_ids that KFD shows to `process` and whose VM it has not acquired. CHECKPOINT of a process
/// with a BO and with such a GPU reads through a null pointer and stops the kernel
/// (amdgpu_amdkfd_gpuvm.c:amdgpu_amdkfd_bo_mapped_to_dev@6.12.117 and @7.3.4). KFD does not report
/// its VMs. A GPU counts as acquired while the process uses VRAM of it or holds a render file of it
/// open. Where the PASID of that file is known, it must be the KFD process's. `host`: as the root
/// of core/os/procfs.h.
std::vector<std::uint32_t> unacquired_vms(const GpuProcess& process, const std::string& host = "");

}  // namespace kfdcp
