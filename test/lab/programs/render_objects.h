// What render-worker holds on a render node, through libdrm_amdgpu: BOs with holes between their
// handles, GPU mappings, a context, a BO list; a second file of the node shares one of the BOs,
// whose dma-buf is open, too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/drm/gpu_objects.h"
#include "core/os/fd.h"
#include "pattern.h"

namespace lab {

/// A BO and where the GPU sees it; it has contents of `pattern`, by its number.
struct RenderBo {
  RenderBo(const kfdcp::GpuDevice& device, std::uint32_t number, std::uint64_t size,
           std::uint64_t domains, std::uint64_t flags);

  std::uint32_t number;
  std::uint64_t size;
  kfdcp::GpuBo bo;
  kfdcp::GpuMapping gpu;
  /// Its GEM handle.
  std::uint32_t handle() const;
};

/// A BO list that the application keeps; the product has none of its own.
using BoList = std::unique_ptr<amdgpu_bo_list, kfdcp::GpuDelete<amdgpu_bo_list_destroy>>;

class RenderObjects {
 public:
  /// `node`: path of a render node of amdgpu. Throws Error{gpu} or Error{io}.
  RenderObjects(const std::string& node, const Pattern& pattern);

  /// Handles, contents, the numbers of submissions and what two files share. Throws Error{corrupt}
  /// when something is no longer what it was; returns what it saw.
  std::string verify();
  /// Starts copies of 256 MiB in all on an SDMA engine that nothing else here uses, and does not
  /// wait for them. Nothing can be verified afterwards: they are this file's last.
  void start_copies();

 private:
  static constexpr std::uint64_t kSmall = 64 * 1024;
  static constexpr std::uint64_t kLarge = 16 << 20;

  void fill(RenderBo& bo);
  void check(RenderBo& bo);
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);
  std::uint64_t submit(const std::vector<std::uint32_t>& packets, std::uint32_t ring);
  void wait_for(std::uint64_t submission);
  void check_shared();
  void check_dmabuf();

  const Pattern& pattern_;
  kfdcp::UniqueFd dmabuf_;  // below the files: CRIU comes to it first
  kfdcp::UniqueFd file_, second_;
  kfdcp::GpuDevice device_;
  std::list<RenderBo> bos_;  // the first one is shared
  kfdcp::GpuBo ib_, staging_;
  kfdcp::GpuMapping ib_gpu_, staging_gpu_;
  kfdcp::GpuCpuMapping ib_cpu_, staging_cpu_;
  kfdcp::GpuContext context_;
  BoList list_;
  kfdcp::Mapping shared_;  // through the second file
  std::uint64_t submitted_ = 0;
};

/// A dma-buf of a BO that only this descriptor keeps. Throws Error{gpu} or Error{io}.
kfdcp::UniqueFd orphan_dmabuf(const std::string& node);

}  // namespace lab
