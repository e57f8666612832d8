#include "selftest/queue.h"

#include <cstring>
#include <string>

#include "core/os/device_call.h"
#include "core/os/error.h"

namespace kfdcp::selftest {

Queue::Queue(Gpu& gpu, const kfd_ioctl_create_queue_args& arguments, std::size_t ring_bytes,
             Pointers pointers)
    : gpu_(gpu),
      ring_(Buffer::gtt(gpu, ring_bytes)),
      page_(Buffer::gtt(gpu, 4096)),
      at_(pointers),
      arguments_(arguments) {
  std::memset(ring_.bytes().data(), 0, ring_.size());
  std::memset(page_.bytes().data(), 0, page_.size());
  arguments_.gpu_id = gpu.id();
  arguments_.queue_percentage = 100;
  arguments_.queue_priority = 7;
  arguments_.ring_base_address = ring_.address();
  arguments_.ring_size = static_cast<std::uint32_t>(ring_bytes);
  arguments_.read_pointer_address = page_.address(at_.read);
  arguments_.write_pointer_address = page_.address(at_.write);
}

void Queue::create() {
  const bool sdma = arguments_.queue_type == KFD_IOC_QUEUE_TYPE_SDMA;
  must_call(gpu_.kfd(), AMDKFD_IOC_CREATE_QUEUE, &arguments_,
            gpu_.name() + ": KFD CREATE_QUEUE of " + (sdma ? "SDMA" : "AQL"));
  made_ = true;
}

Queue::~Queue() {
  if (!made_) return;
  kfd_ioctl_destroy_queue_args destroy{};
  destroy.queue_id = arguments_.queue_id;
  (void)call_device(gpu_.kfd(), AMDKFD_IOC_DESTROY_QUEUE, &destroy);
}

void Queue::submit(std::uint64_t position, std::uint64_t bell) {
  store(page_.long_word(at_.write), position);
  store(gpu_.doorbell(arguments_.doorbell_offset), bell);
}

}  // namespace kfdcp::selftest
