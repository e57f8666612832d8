// What the golden pages files of image version 1 hold. Fixed for ever: a released file must stay
// readable, so change nothing here; add fixtures instead.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"

namespace kfdcp::test {

struct GoldenPages {
  std::string name;
  PagesOptions options;
  std::vector<Content> buffers;
};

inline std::vector<GoldenPages> golden_pages() {
  PagesOptions raw;
  raw.frame_bytes = 1u << 20;
  raw.process = 1;
  raw.gpu = 2;
  PagesOptions zstd = raw;
  zstd.compress = Compress::zstd;
  zstd.frame_bytes = 2u << 20;

  PagesOptions lz4 = raw;
  lz4.compress = Compress::lz4;
  PagesOptions shared = raw;
  shared.share = true;

  Bytes late(raw.frame_bytes + 300);  // a zero frame, then a short raw one
  std::copy_n(noise(300, 11).begin(), 300, late.end() - 300);
  Bytes even(zstd.frame_bytes, std::byte{0x5a});
  Bytes zeros(4u << 20);
  return {
      {"pages-empty.img", raw, {}},
      {"pages-raw.img",
       raw,
       {{9, noise(5000, 12)}, {1, late}, {0xfffffffe, zeros}, {2, text(4096, 13)}}},
      {"pages-zstd.img",
       zstd,
       {{4, even}, {5, noise(64, 14)}, {6, text(20000, 15)}, {7, Bytes(8192)}}},
      {"pages-lz4.img", lz4, {{3, text(30000, 16)}, {8, noise(80, 17)}, {2, Bytes(100)}}},
      {"pages-planes.img", zstd, {{1, halves(20001, 18)}, {2, text(9000, 19)}}},
      {"pages-shared.img",
       shared,
       {{1, noise(4500, 20)}, {2, noise(90, 21)}, {3, noise(4500, 20)}, {4, Bytes(64)}}},
  };
}

/// Refers to pages-shared.img.
inline GoldenPages golden_delta() {
  PagesOptions options;
  options.frame_bytes = 1u << 20;
  options.share = true;
  return {"pages-delta.img",
          options,
          {{5, noise(90, 21)}, {1, noise(4500, 20)}, {6, noise(70, 22)}, {7, Bytes(5)}}};
}

/// Refers to pages-shared.img, as a file of the same image.
inline GoldenPages golden_sibling() {
  PagesOptions options;
  options.frame_bytes = 1u << 20;
  options.share = true;
  options.process = 1;
  options.gpu = 3;
  return {"pages-sibling.img",
          options,
          {{8, noise(90, 21)}, {9, noise(4500, 20)}, {10, noise(60, 23)}, {11, Bytes(6)}}};
}

}  // namespace kfdcp::test
