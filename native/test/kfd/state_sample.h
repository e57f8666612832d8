// A process state with something in every field. The golden fixture is made of it: never change it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/kfd/state.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {

inline ProcessState sample_state() {
  ProcessState state;
  state.ordinal = 3;
  state.ns_pid = 17;
  state.num_objects = 5;
  state.devices = {{.user_gpu_id = 0x1234, .actual_gpu_id = 0x1234, .drm_fd = 11, .pad = 0},
                   {.user_gpu_id = 0xabcd, .actual_gpu_id = 0xabcd, .drm_fd = 12, .pad = 7}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    state.bos.push_back({.addr = 0x7f1200000000 + i * 0x200000ull,
                         .size = 0x200000,
                         .offset = 0xc000000000000000 + i * 0x1000ull,
                         .restored_offset = 0,
                         .gpu_id = i == 2 ? 0xabcdu : 0x1234u,
                         .alloc_flags = 0xd0000001u + i,
                         .dmabuf_fd = 40 + i,
                         .pad = 0});
  }
  state.priv = noise(333, 42);
  state.vmas = {{0x7f0000000000, 0x7f0000002000, 0xc000000000000000, VmaRecord::kfd, 0},
                {0x7f0000002000, 0x7f0000003000, 0x0000000100000000, VmaRecord::render, 0},
                {0x7f1200000000, 0x7f1200200000, 0x0000000100200000, VmaRecord::render, 0}};
  return state;
}

/// The same with the GPU of each render mapping.
inline ProcessState two_gpu_state() {
  ProcessState state = sample_state();
  state.vmas[1].gpu_id = 0x1234;
  state.vmas[2].gpu_id = 0xabcd;
  return state;
}

/// By the names of their fixtures.
inline std::vector<std::pair<std::string, ProcessState>> golden_states() {
  return {{"state-empty.img", {}},
          {"state-sample.img", sample_state()},
          {"state-two-gpus.img", two_gpu_state()}};
}

}  // namespace kfdcp::test
