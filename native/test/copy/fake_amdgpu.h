// A render node of a fake kernel, below libdrm: user memory, mappings, submissions, SDMA copies.
#pragma once

#include <amdgpu_drm.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp::test {

/// Answers the ioctls of libdrm_amdgpu on its descriptor while it lives; one at a time. Copies
/// happen when they are waited for. A copy that touches memory whose BO its submission does not
/// list fails, as on a GPU.
class FakeAmdgpu {
 public:
  explicit FakeAmdgpu(unsigned rings = 2);
  ~FakeAmdgpu();
  FakeAmdgpu(const FakeAmdgpu&) = delete;
  FakeAmdgpu& operator=(const FakeAmdgpu&) = delete;

  int fd() const { return file_.get(); }
  int ioctl(unsigned long request, void* argument);  // 0 or an errno

  struct Submission {
    std::uint32_t ring;
    std::set<std::uint32_t> bos;  // GEM handles
    std::uint64_t user_pages;     // of user memory, in the listed BOs
    std::uint64_t commands;       // GPU address
    std::uint32_t command_bytes;
    bool done = false;
    bool failed = false;
  };
  std::vector<Submission> submissions;  // in the order in which they came
  std::size_t bo_lists = 0;             // made by an ioctl of their own
  std::optional<std::size_t> fails;     // this submission ends with EIO
  std::map<unsigned, int> errors;       // the request of this number answers with this errno
  std::string driver_name = "amdgpu";
  std::uint64_t vram = 0, vram_used = 0;  // bytes
  bool vram_spills = false;               // BOs of VRAM are made in GTT
  std::size_t live() const { return bos_.size() + mappings_.size(); }

 private:
  struct Bo {
    std::span<std::byte> memory;
    bool user = false;
    Mapping mapping{};
    std::uint64_t domains = AMDGPU_GEM_DOMAIN_GTT;
  };
  struct Va {
    std::uint32_t bo;
    std::uint64_t offset, bytes;
  };

  std::uint32_t add(Bo bo);
  int driver(unsigned number, void* argument);
  int info(const drm_amdgpu_info& query) const;
  int info_of(drm_amdgpu_gem_op& question) const;
  int create(drm_amdgpu_gem_create& create);
  int map(const drm_amdgpu_gem_va& va);
  int submit(drm_amdgpu_cs& cs);
  int wait(drm_amdgpu_wait_cs& wait);
  bool run(const Submission& job);
  std::byte* at(const Submission& job, std::uint64_t address, std::uint64_t bytes);

  UniqueFd file_;
  std::uint64_t file_bytes_ = 0;
  unsigned rings_;
  std::uint32_t last_handle_ = 0;
  std::map<std::uint32_t, Bo> bos_;
  std::map<std::uint64_t, Va> mappings_;                         // by GPU address
  std::map<std::uint32_t, std::vector<std::size_t>> sequences_;  // by ring: indexes of submissions
};

}  // namespace kfdcp::test
