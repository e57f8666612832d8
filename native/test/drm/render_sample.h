// A render state with something in every field. The golden fixture is made of it: never change it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/drm/render_state.h"

namespace kfdcp::test {

inline RenderState sample_render_state() {
  RenderState state;
  state.ordinal = 5;
  state.bos = {{2, kOwnBo, 0x10000, 4096, 4, 0x9, 0x100000000},
               {3, 17, 0x200000, 0x200000, 2, 0x2, 0},
               {9, kOwnBo, 0x3000, 4096, 6, 0, 0x100300000}};
  state.mappings = {{2, 0, 0x200000000, 0x3000, 0, 0xe},
                    {0, 0, 0x200010000, 0x8000, 0x8000, 0x6},
                    {0, 0, 0x7f0000000000, 0x1000, 0, 0x22}};
  state.metadata = {{1, 8, 3, 0x1234567890, {}}};
  state.metadata[0].data[0] = 0xdeadbeef;
  state.metadata[0].data[1] = 0x12345678;
  state.contexts = {1, 4, 5};
  state.rings = {{1, 2, 0, 0, 17}, {1, 2, 0, 1, 1}, {5, 2, 0, 0, 65536}};
  state.bo_lists = {2, 7};
  return state;
}

/// By the names of their fixtures.
inline std::vector<std::pair<std::string, RenderState>> golden_render_states() {
  return {{"render-state-empty.img", {}}, {"render-state-sample.img", sample_render_state()}};
}

}  // namespace kfdcp::test
