#include "core/pages_chain.h"

#include <string>

#include "core/error.h"
#include "core/frame_codec.h"

namespace kfdcp {

namespace {

void require(bool ok, const std::string& reason) {
  if (!ok) throw Error(ErrorCode::corrupt, "pages file: " + reason);
}

void check_chain(const std::vector<const PagesReader*>& chain) {
  require(!chain.empty(), "no file in the chain");
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Digest128 none{};
    const Digest128 wanted = chain[i]->summary().parent;
    const Digest128 next = i + 1 < chain.size() ? chain[i + 1]->summary().root : none;
    require(wanted != none || next == none, "a parent too many in the chain");
    require(wanted == next, next == none ? "its parent is missing" : "another parent than its own");
  }
}

/// A frame that stores its content, or is zero.
struct Source {
  const PagesReader* file;
  std::uint64_t index;
  FrameEntry entry;
};

/// Follows references: as far as the chain is long.
Source find(const std::vector<const PagesReader*>& chain, std::uint64_t index) {
  const FrameEntry asked = chain[0]->frame(index);
  Source source{chain[0], index, asked};
  for (std::size_t next = 1; source.entry.codec == Codec::reference; ++next) {
    const std::uint64_t number = source.entry.offset;
    require(next < chain.size() && number < chain[next]->summary().frames,
            "frame " + std::to_string(index) + ": refers to a frame that is not there");
    source = {chain[next], number, chain[next]->frame(number)};
    require(source.entry.codec != Codec::zero && source.entry.raw == asked.raw &&
                source.entry.checksum == asked.checksum && source.entry.digest == asked.digest,
            "frame " + std::to_string(index) + ": refers to another content");
  }
  return source;
}

/// What a writer is told that is to have the codecs of these files.
Compress codecs_of(const std::vector<const PagesReader*>& chain) {
  bool lz4 = false, planes = false;
  for (const PagesReader* file : chain) {
    for (std::uint64_t i = 0; i < file->summary().frames; ++i) {
      const Codec codec = file->frame(i).codec;
      lz4 = lz4 || codec == Codec::lz4;
      planes = planes || codec == Codec::planes;
    }
  }
  if (lz4) return planes ? Compress::automatic : Compress::lz4;
  return planes ? Compress::zstd : Compress::none;
}

}  // namespace

PagesSummary flatten_pages(const std::vector<const PagesReader*>& chain, int fd,
                           std::stop_token stop) {
  check_chain(chain);
  const PagesReader& file = *chain[0];
  PagesOptions options = file.options();
  options.compress = codecs_of(chain);
  options.share = true;
  PagesWriter writer(fd, options);
  FrameDecoder decoder;
  std::vector<std::byte> stored;
  std::vector<std::byte> content(options.frame_bytes);
  for (const BufferEntry& buffer : file.buffers()) {
    writer.begin_buffer(buffer.id, buffer.size);
    for (std::uint64_t i = buffer.first_frame; i < buffer.first_frame + buffer.frames; ++i) {
      if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "flattening: cancelled");
      const Source source = find(chain, i);
      const FrameEntry& entry = source.entry;
      stored.resize(entry.stored);
      if (is_stored(entry.codec)) {
        source.file->read_stored(source.index, stored);
        decoder.decode(entry, source.index, stored, std::span(content).first(entry.raw));
      }
      const EncodedFrame frame{entry.codec, entry.checksum, stored, entry.digest};
      const PlacedFrame placed = writer.place(entry.raw, frame);
      writer.write({&placed, 1}, {&frame, 1});
    }
  }
  return writer.finish();
}

}  // namespace kfdcp
