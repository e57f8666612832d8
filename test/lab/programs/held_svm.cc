// Shared virtual memory: ranges of host memory that have attributes.
#include <linux/kfd_ioctl.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "bare_held.h"
#include "core/os/error.h"

namespace lab {
namespace {

using Attribute = kfd_ioctl_svm_attribute;
using Attributes = std::vector<Attribute>;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kBytes = 1024 * kPage;

/// Pages of the memory, and what they are given beyond the defaults.
struct Range {
  std::size_t first, pages;
  Attributes attributes;
};

/// With gaps, and one of a single page inside another.
std::vector<Range> ranges(std::uint32_t gpu) {
  return {
      {0, 256, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu}, {KFD_IOCTL_SVM_ATTR_ACCESS, gpu}}},
      {256,
       100,
       {{KFD_IOCTL_SVM_ATTR_GRANULARITY, 5},
        {KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_EXEC},
        {KFD_IOCTL_SVM_ATTR_NO_ACCESS, gpu}}},
      {512,
       300,
       {{KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, KFD_IOCTL_SVM_LOCATION_SYSMEM},
        {KFD_IOCTL_SVM_ATTR_CLR_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT},
        {KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_READ_MOSTLY},
        {KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE, gpu}}},
      {600, 1, {{KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_RO}}},
  };
}

class HeldSvm : public Holding {
 public:
  HeldSvm(const BareGpu& gpu, const Pattern& pattern) : gpu_(gpu), pattern_(pattern) {
    void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw kfdcp::io_error("host memory");
    memory_ = kfdcp::Mapping(base, kBytes);
    pattern_.write(kSvmMemory, 0, memory_.bytes());
    for (const Range& range : ranges(gpu.id())) {
      Attributes attributes = range.attributes;
      ask(KFD_IOCTL_SVM_OP_SET_ATTR, range.first, range.pages, attributes);
    }
    for (std::size_t page = 0; page < kBytes / kPage; page += kStride) {
      recorded_.push_back(attributes_of(page));
    }
  }

  const char* name() const override { return "svm"; }

  void check() override {
    pattern_.check("shared virtual memory", kSvmMemory, 0, memory_.bytes());
    for (std::size_t i = 0; i < recorded_.size(); ++i) {
      const Attributes now = attributes_of(i * kStride);
      for (std::size_t k = 0; k < now.size(); ++k) {
        const std::string what =
            "page " + std::to_string(i * kStride) + " of shared virtual memory: ";
        expect(what + "kind of attribute " + std::to_string(k), now[k].type, recorded_[i][k].type);
        expect(what + "attribute " + std::to_string(k), now[k].value, recorded_[i][k].value);
      }
    }
  }

 private:
  static constexpr std::size_t kStride = 4;  // pages; 600, a range of one, is a multiple

  Attributes attributes_of(std::size_t page) {
    Attributes attributes = {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, 0},
                             {KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, 0},
                             {KFD_IOCTL_SVM_ATTR_SET_FLAGS, 0},
                             {KFD_IOCTL_SVM_ATTR_GRANULARITY, 0},
                             {KFD_IOCTL_SVM_ATTR_ACCESS, gpu_.id()}};
    ask(KFD_IOCTL_SVM_OP_GET_ATTR, page, 1, attributes);
    return attributes;
  }

  void ask(std::uint32_t operation, std::size_t page, std::size_t pages, Attributes& attributes) {
    const std::size_t bytes = attributes.size() * sizeof(Attribute);
    std::vector<std::uint64_t> buffer((sizeof(kfd_ioctl_svm_args) + bytes) / sizeof(std::uint64_t));
    auto& arguments = *reinterpret_cast<kfd_ioctl_svm_args*>(buffer.data());
    arguments.start_addr = reinterpret_cast<std::uintptr_t>(memory_.data()) + page * kPage;
    arguments.size = pages * kPage;
    arguments.op = operation;
    arguments.nattr = static_cast<std::uint32_t>(attributes.size());
    auto* values = reinterpret_cast<std::byte*>(buffer.data()) + sizeof arguments;
    std::memcpy(values, attributes.data(), bytes);
    // The size in the number of the call is that of the arguments with all attributes.
    gpu_.call(AMDKFD_IOC_SVM + (bytes << _IOC_SIZESHIFT), buffer.data(), "shared virtual memory");
    std::memcpy(attributes.data(), values, bytes);
  }

  const BareGpu& gpu_;
  const Pattern& pattern_;
  kfdcp::Mapping memory_;
  std::vector<Attributes> recorded_;  // of every kStride-th page
};

}  // namespace

std::unique_ptr<Holding> hold_svm(const BareGpu& gpu, const Pattern& pattern) {
  return std::make_unique<HeldSvm>(gpu, pattern);
}

}  // namespace lab
