// An image in which one file has what another one only names.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "core/pages/pages_check.h"
#include "test/os/memory_file.h"
#include "test/os/random_bytes.h"
#include "test/pages/pages_util.h"
#include "test/pages/sibling_image.h"

namespace kfdcp::test {

inline const SiblingImage::Id kFirst{0, 0}, kSecond{0, 1}, kThird{7, 0};

/// Two files, the second of which has one frame of its own.
struct Replicas {
  Replicas() {
    first = image.write(sibling_options(0, 0), weights);
    second = image.write(sibling_options(0, 1), replica);
  }
  const std::vector<Content> weights{{1, joined({noise(3 * kSmallFrame, 1), Bytes(kSmallFrame)})},
                                     {2, noise(700, 2)}};
  const std::vector<Content> replica{
      {3, noise(700, 2)},
      {4, joined({noise(3 * kSmallFrame, 1), noise(kSmallFrame, 9)})},
      {5, Bytes(64)}};
  SiblingImage image;
  PagesSummary first, second;
};

/// Both readers take the file, and tell the same of it.
inline void check_sound(const SiblingImage& image, const SiblingImage::Id& id) {
  PagesStreamCheck check;
  check.feed(image.bytes(id));
  const auto reader = image.reader(id);
  const PagesSummary streamed = check.finish().summary;
  CHECK(streamed.root == reader->summary().root);
  CHECK(streamed.siblings == reader->summary().siblings);
  CHECK(list_pages(memory_file(image.bytes(id)).get()).summary.siblings == streamed.siblings);
}

}  // namespace kfdcp::test
