// Files of every released version of the image (test/fixtures/image-v<n>).
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <string>

#include "test/os/memory_file.h"

namespace kfdcp::test {

inline Bytes fixture(const std::string& name) {
  const auto path =
      std::filesystem::path(__FILE__).parent_path() / "../../../test/fixtures/image-v1" / name;
  CAPTURE(path.string());
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(fd);
  return content_of(fd.get());
}

}  // namespace kfdcp::test
