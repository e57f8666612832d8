#include "core/survey/unacquired_vms.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/os/procfs.h"
#include "core/os/text_file.h"

namespace kfdcp {

namespace {

std::optional<std::uint64_t> number_in(const std::string& path) {
  const std::optional<std::string> text = read_text(path);
  if (!text) return std::nullopt;
  std::string_view rest = *text;
  return take_integer<std::uint64_t>(rest);
}

/// The line of amdgpu_fdinfo.c:amdgpu_show_fdinfo@6.12.117; 0 when there is none.
std::uint64_t pasid_of(int render_fd) {
  const std::string info = read_text("/proc/self/fdinfo/" + std::to_string(render_fd)).value_or("");
  std::string_view rest = info;
  while (const auto line = take_line(rest)) {
    std::string_view fields = *line;
    if (take_word(fields) == "pasid:") return take_integer<std::uint64_t>(fields).value_or(0);
  }
  return 0;
}

}  // namespace

std::vector<std::uint32_t> unacquired_vms(const GpuProcess& process, const std::string& host) {
  const std::string shown = host + "/sys/class/kfd/kfd/proc/" + std::to_string(process.pid);
  // Kernels with one PASID for each file instead show 0 here, or have no such file.
  const std::uint64_t kfd_pasid = number_in(shown + "/pasid").value_or(0);
  std::vector<std::uint32_t> missing;
  for (const auto& [minor, gpu_id] : procfs::gpus_by_minor(host)) {
    const auto vram_bytes = number_in(shown + "/vram_" + std::to_string(gpu_id));
    if (!vram_bytes || *vram_bytes > 0) continue;  // invisible, or a BO is in its VM
    const auto carries_kfd = [&](const GpuProcess::RenderFile& render) {
      if (render.gpu_id != gpu_id) return false;
      const std::uint64_t pasid = pasid_of(render.file.get());
      return kfd_pasid == 0 || pasid == 0 || pasid == kfd_pasid;
    };
    if (!std::ranges::any_of(process.render_files, carries_kfd)) missing.push_back(gpu_id);
  }
  return missing;
}

}  // namespace kfdcp
