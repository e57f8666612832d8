#include <linux/kfd_ioctl.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/os/device_call.h"
#include "core/os/error.h"
#include "core/os/pattern.h"
#include "selftest/contents.h"

namespace kfdcp::selftest {
namespace {

constexpr std::size_t kBytes = 256 * 4096;
/// Pages that move together, as a power of 2. The kernel's own is 9.
constexpr std::uint32_t kGranularity = 5;
/// What tells its contents from those of other parts.
constexpr std::uint64_t kKey = 0x5000'0000;

}  // namespace

Svm::Svm(Gpu& gpu, Mover& mover, std::uint64_t seed)
    : gpu_(gpu), mover_(mover), seed_(seed), memory_(host_memory(kBytes)) {
  write_pattern(memory_.bytes(), (seed_ << 32) + kKey, 0);
  ask(KFD_IOCTL_SVM_OP_SET_ATTR, {{KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, KFD_IOCTL_SVM_LOCATION_SYSMEM},
                                  {KFD_IOCTL_SVM_ATTR_GRANULARITY, kGranularity},
                                  {KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_COHERENT},
                                  {KFD_IOCTL_SVM_ATTR_ACCESS, gpu_.id()}});
}

void Svm::verify() {
  const std::string what = "shared virtual memory";
  const auto attributes = ask(KFD_IOCTL_SVM_OP_GET_ATTR, {{KFD_IOCTL_SVM_ATTR_GRANULARITY, 0},
                                                          {KFD_IOCTL_SVM_ATTR_ACCESS, gpu_.id()}});
  if (attributes[0].value != kGranularity) {
    throw Error(ErrorCode::corrupt, what + ": its granularity is " +
                                        std::to_string(attributes[0].value) + ", was " +
                                        std::to_string(kGranularity));
  }
  if (attributes[1].type != KFD_IOCTL_SVM_ATTR_ACCESS) {
    throw Error(ErrorCode::corrupt, what + ": the GPU has no access to it any more");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  const auto key = [&] { return (seed_ << 32) + kKey + generation_; };
  check_pattern(what, memory_.bytes(), key(), 0);
  mover_.check(what + ", read by the GPU", address, kBytes, key());
  ++generation_;
  mover_.write(address, kBytes, key());
  check_pattern(what + ", written by the GPU", memory_.bytes(), key(), 0);
}

std::vector<Svm::Attribute> Svm::ask(std::uint32_t operation, std::vector<Attribute> attributes) {
  static_assert(sizeof(Attribute) == sizeof(kfd_ioctl_svm_attribute));
  const std::size_t bytes = attributes.size() * sizeof(Attribute);
  std::vector<std::uint64_t> memory((sizeof(kfd_ioctl_svm_args) + bytes) / sizeof(std::uint64_t));
  auto& arguments = *reinterpret_cast<kfd_ioctl_svm_args*>(memory.data());
  arguments.start_addr = reinterpret_cast<std::uintptr_t>(memory_.data());
  arguments.size = kBytes;
  arguments.op = operation;
  arguments.nattr = static_cast<std::uint32_t>(attributes.size());
  auto* values = reinterpret_cast<std::byte*>(memory.data()) + sizeof arguments;
  std::memcpy(values, attributes.data(), bytes);
  // The size in the number of the call is that of the arguments with all attributes.
  must_call(gpu_.kfd(), AMDKFD_IOC_SVM + (bytes << _IOC_SIZESHIFT), memory.data(),
            gpu_.name() + ": KFD SVM");
  std::memcpy(attributes.data(), values, bytes);
  return attributes;
}

}  // namespace kfdcp::selftest
