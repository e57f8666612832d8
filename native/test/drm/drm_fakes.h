// Render files of a fake kernel: GEM handles, GPU mappings, contexts, BO lists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/drm/render_state.h"
#include "core/os/device_call.h"
#include "core/os/fd.h"

namespace kfdcp::test {

/// Answers every ioctl of core/os/device_call.h while it lives; one at a time. Numbers are the
/// lowest free ones, as the kernel gives them. What breaks its rules gets the kernel's errno.
class FakeDrm {
 public:
  enum class Interface { absent, disabled, working };

  FakeDrm();
  ~FakeDrm();
  FakeDrm(const FakeDrm&) = delete;
  FakeDrm& operator=(const FakeDrm&) = delete;

  Interface list_handles = Interface::working;
  Interface mapping_info = Interface::working;
  Interface change_handle = Interface::absent;

  struct Bo {
    std::uint64_t size = 0, alignment = 0, domains = 0, flags = 0, offset = 0;
    bool userptr = false;
    bool imported = false;
    GemMetadata metadata{};
    UniqueFd memfd;  // stands for its dma-buf: same inode, same BO
  };
  struct File {
    std::map<std::uint32_t, std::shared_ptr<Bo>> handles;
    std::map<std::uint64_t, GemMapping> mappings;  // by address; `bo` is the handle
    struct Context {
      std::uint32_t lost = 0;  // flags of QUERY_STATE2
      bool pins_clocks = false;
      using Ring = std::pair<std::uint32_t, std::uint32_t>;  // ip, number
      std::map<Ring, std::uint64_t> submitted;
      std::map<Ring, int> failed;  // errno of a ring whose last submission failed
      bool busy = false;
      int busy_answers = 0;  // to the next questions, as a driver whose clock is ahead gives them
    };
    std::map<std::uint32_t, Context> contexts;
    std::map<std::uint32_t, std::set<std::uint32_t>> bo_lists;  // handles of each
    std::set<std::uint32_t> syncobjs;
  };
  /// The file behind a descriptor, which is just a number here; made at the first use.
  File& file(int fd) { return files_[fd]; }

  std::uint32_t clocks = 0;  // AMDGPU_CTX_STABLE_PSTATE_* of the GPU
  /// Where the high half of the GPU's addresses begins; the low half is as large. 0: there is none.
  std::uint64_t high_half = 0xffff800000000000;

  std::size_t bo_list_room = ~std::size_t{0};  // of each file

  int calls = 0;
  std::map<unsigned long, int> fails;  // this request answers with this errno

 private:
  static int system_call(int fd, unsigned long request, void* argument);
  int answer(int fd, unsigned long request, void* argument);
  int handle_call(File& file, unsigned long request, void* argument);
  int prime_call(File& file, unsigned long request, void* argument);
  int work_call(File& file, unsigned long request, void* argument);
  int context_call(File& file, void* argument);
  int set_clocks(File::Context& context, std::uint32_t level);

  IoctlFn old_;
  std::map<int, File> files_;
  std::uint64_t next_offset_ = 0x100000000;
};

}  // namespace kfdcp::test
