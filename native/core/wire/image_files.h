// Names of our files in an image directory, as src/manifest/names.ts has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kfdcp {

/// Written last: an image directory with it holds a whole checkpoint.
inline constexpr char kManifestName[] = "kfd-manifest.json";

/// Whether `name` is what a session calls a file before there is a manifest: of a state, of pages,
/// or the manifest's temporary one.
bool is_unsealed_name(std::string_view name);

/// Of the pages file of process ordinal `process` on GPU ordinal `gpu`.
std::string pages_file_name(std::uint32_t process, std::uint32_t gpu);

/// Removes what a session that was killed has written so far into the image directory open as
/// `directory_fd`, and into the folder of its pages files open as `contents_fd`, if it has one.
/// Returns the number of files. Nothing where there is a manifest, which the folder never has;
/// nothing but regular files. What cannot be removed stays: no restore takes it.
std::size_t remove_unsealed_files(int directory_fd, int contents_fd = -1);

/// The same with the manifest, which goes first: for a checkpoint that has failed after its seal.
std::size_t remove_image_files(int directory_fd, int contents_fd = -1);

/// Whether the image is sealed. A file that cannot be examined counts as present.
bool has_manifest(int directory_fd);

}  // namespace kfdcp
