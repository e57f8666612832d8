#include "core/pages/image_stores.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/os/error.h"
#include "core/pages/codec_set.h"
#include "core/pages/frame_codec.h"
#include "core/pages/frame_identity.h"
#include "core/pages/pages_sink.h"

namespace kfdcp {

namespace {

void need_digests(const PagesReader& file) {
  if (!file.summary().digests) {
    throw Error(ErrorCode::unsupported, "pages file: has no digests, by which contents are known");
  }
}

/// Without the place in a file.
EncodedFrame encoded(const FrameEntry& entry, std::span<const std::byte> stored) {
  return {entry.codec, entry.checksum, stored, entry.digest};
}

}  // namespace

ImageStores::ImageStores(std::vector<ChainFile> files,
                         const std::vector<const PagesReader*>& stores) {
  for (const PagesReader* store : stores) add_store(*store);
  for (const ChainFile& file : files) {
    need_digests(*file.file);
    files_.emplace_back(std::vector<ChainFile>{file});
  }
  Seen seen;
  for (const FrameChain& file : files_) add_file(file, seen);
}

void ImageStores::add_store(const PagesReader& store) {
  need_digests(store);
  const auto ordinal = static_cast<std::uint16_t>(store.options().gpu);
  StoreUse use;
  for (std::uint64_t i = 0; i < store.summary().frames; ++i) {
    const FrameEntry entry = store.frame(i);
    if (!is_stored(entry.codec)) continue;
    use.stored += entry.stored;
    places_.find_or_add(identity_of(entry), {0, ordinal, static_cast<std::uint32_t>(i)});
  }
  uses_.push_back(use);
  ordinals_.push_back(ordinal);
}

/// Finds the frames of one file: in a store, or among those that a new one gets.
void ImageStores::add_file(const FrameChain& file, Seen& seen) {
  for (std::uint64_t i = 0; i < file.file().summary().frames; ++i) {
    const SiblingFiles::Frame source = file.find(i);
    if (!is_stored(source.entry.codec)) continue;
    if (!seen.insert(identity_of(source.entry)).second) continue;
    if (const auto place = places_.find(identity_of(source.entry))) {
      const auto at = std::ranges::find(ordinals_, place->gpu) - ordinals_.begin();
      uses_[static_cast<std::size_t>(at)].live += source.entry.stored;
      continue;
    }
    new_.push_back({source.file, source.index, source.entry});
    missing_ += source.entry.stored;
  }
}

/// Behind the last content of the next store: it takes contents as long as it has less than `most`.
std::size_t ImageStores::batch_end(std::uint64_t most) const {
  std::size_t end = written_;
  for (std::uint64_t bytes = 0; end < new_.size() && (end == written_ || bytes < most); ++end) {
    bytes += new_[end].entry.stored;
  }
  return end;
}

std::optional<PagesListing> ImageStores::write_store(std::unique_ptr<PagesSink> sink,
                                                     std::uint32_t ordinal, std::uint64_t most,
                                                     std::stop_token stop) {
  const std::size_t end = batch_end(most);
  if (end == written_) return std::nullopt;
  const auto batch = std::span(new_).subspan(written_, end - written_);
  PagesOptions options{.share = true, .process = 0, .gpu = ordinal};
  options.frame_bytes = 0;
  CodecSet codecs;
  for (const Missing& one : batch) {
    codecs.add(one.entry.codec);
    options.frame_bytes = std::max(options.frame_bytes, one.file->options().frame_bytes);
  }
  options.compress = codecs.option();
  PagesWriter writer(std::move(sink), options);
  FrameDecoder decoder;
  std::vector<std::byte> stored;
  std::vector<std::byte> content(options.frame_bytes);
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "stores: cancelled");
    const auto& [file, index, entry] = batch[i];
    stored.resize(entry.stored);
    file->read_stored(index, stored);
    decoder.decode(entry, index, stored, std::span(content).first(entry.raw));
    writer.begin_buffer(i, entry.raw);
    const EncodedFrame frame = encoded(entry, stored);
    const PlacedFrame placed = writer.place(entry.raw, frame);
    writer.write({&placed, 1}, {&frame, 1});
    places_.find_or_add(identity_of(entry), {0, static_cast<std::uint16_t>(ordinal), i});
    missing_ -= entry.stored;
  }
  written_ = end;
  PagesListing made{options, writer.finish(), {}};
  for (std::uint32_t i = 0; i < batch.size(); ++i) {
    made.buffers.push_back({i, batch[i].entry.raw, i, 1});
  }
  return made;
}

PagesListing ImageStores::write_file(std::size_t index, int fd) {
  if (written_ != new_.size()) throw Error(ErrorCode::protocol, "stores: some are not written yet");
  const FrameChain& chain = files_.at(index);
  const PagesReader& file = chain.file();
  PagesOptions options = file.options();
  options.compress = Compress::none;
  options.share = true;
  PagesWriter writer(fd, options, nullptr, &places_);
  for (const BufferEntry& buffer : file.buffers()) {
    writer.begin_buffer(buffer.id, buffer.size);
    for (std::uint64_t i = buffer.first_frame; i < buffer.first_frame + buffer.frames; ++i) {
      const FrameEntry entry = chain.find(i).entry;
      if (writer.place(entry.raw, encoded(entry, {})).is_new) {
        throw Error(ErrorCode::protocol, "stores: a content is in none");
      }
    }
  }
  return {options, writer.finish(), file.buffers()};
}

}  // namespace kfdcp
