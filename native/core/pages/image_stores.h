// The contents of an image in stores: pages files that hold contents alone, for layers that stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <unordered_set>
#include <vector>

#include "core/pages/frame_identity.h"
#include "core/pages/image_frames.h"
#include "core/pages/pages.h"
#include "core/pages/pages_chain.h"

namespace kfdcp {

/// GPU ordinals from here on are those of stores, which belong to process ordinal 0. No GPU has
/// one.
inline constexpr std::uint32_t kFirstStore = 0x8000;

/// What an image has of one store. Bytes as they are stored.
struct StoreUse {
  std::uint64_t live = 0;    // contents of the image; those of an earlier store count there
  std::uint64_t stored = 0;  // all contents
};

/// Divides the contents of an image between stores that are there and new ones. The order of new
/// stores, and of contents in them, follows from the indexes of the image alone.
class ImageStores {
 public:
  /// `files`: all pages files of the image. `stores`: those that may be used, each with an ordinal
  /// of its own. All need digests, else Error{unsupported}; they outlive this. Throws as
  /// FrameChain.
  ImageStores(std::vector<ChainFile> files, const std::vector<const PagesReader*>& stores);

  /// One for each of the stores.
  const std::vector<StoreUse>& uses() const { return uses_; }
  /// Stored bytes of contents that no store has, and that no new one has got yet.
  std::uint64_t missing() const { return missing_; }

  /// Writes the next new store, `ordinal`, with about `most` stored bytes, at least one content;
  /// none: there is nothing left. Stored bytes are copied, every frame is verified. Throws
  /// Error{corrupt|io|cancelled}.
  std::optional<PagesListing> write_store(std::unique_ptr<PagesSink> sink, std::uint32_t ordinal,
                                          std::uint64_t most, std::stop_token stop = {});
  /// Writes the file at `index` of the image anew, without contents: all are in stores, which must
  /// be written.
  PagesListing write_file(std::size_t index, int fd);

 private:
  using Seen = std::unordered_set<FrameIdentity, FrameIdentity::Hash>;
  struct Missing {
    const PagesReader* file;
    std::uint64_t index;
    FrameEntry entry;
  };
  void add_store(const PagesReader& store);
  void add_file(const FrameChain& file, Seen& seen);
  std::size_t batch_end(std::uint64_t most) const;

  std::vector<FrameChain> files_;
  std::vector<Missing> new_;  // in the order of the new stores
  std::size_t written_ = 0;   // of `new_`
  ImageFrames places_;        // of the contents in stores
  std::vector<StoreUse> uses_;
  std::vector<std::uint32_t> ordinals_;
  std::uint64_t missing_ = 0;
};

}  // namespace kfdcp
