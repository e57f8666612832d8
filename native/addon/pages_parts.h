// Pages files as JS names them: parts of files, and the other pages files of their images.
#pragma once

#include <napi.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/os/fd.h"
#include "core/pages/pages.h"
#include "core/pages/sibling_files.h"

namespace kfdcp::addon {

/// A pages file as a manifest names it. JS: {path, offset, size, process, gpu, root}.
struct Part {
  std::string path;
  FileRange range;
  std::uint32_t process;
  std::uint32_t gpu;
  std::array<std::uint8_t, 16> root;
};

/// Throws Error{io}.
UniqueFd open_part(const std::string& path, int flags);

/// A pages file, and the pages files of its image, by their ordinals. JS: a Part with `siblings`,
/// an array of Parts.
struct Link {
  Part file;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Part> siblings;

  SiblingFiles::File open(std::uint32_t process, std::uint32_t gpu) const;
};

/// One that is open. `link` outlives it. Throws Error{corrupt} for another file than it says.
struct OpenLink {
  explicit OpenLink(const Link& link);
  UniqueFd fd;
  PagesReader reader;
  SiblingFiles siblings;
};

Part to_part(const Napi::Object& object);
Link to_link(const Napi::Object& object);

}  // namespace kfdcp::addon
