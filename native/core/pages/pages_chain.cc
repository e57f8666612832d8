#include "core/pages/pages_chain.h"

#include <string>

#include "core/os/error.h"
#include "core/pages/frame_codec.h"
#include "core/pages/frame_identity.h"
#include "core/pages/sibling_files.h"

namespace kfdcp {

namespace {

void require(bool ok, const std::string& reason) {
  if (!ok) throw Error(ErrorCode::corrupt, "pages file: " + reason);
}

void check_chain(const std::vector<ChainFile>& chain) {
  require(!chain.empty(), "no file in the chain");
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const Digest128 none{};
    const Digest128 wanted = chain[i].file->summary().parent;
    const Digest128 next = i + 1 < chain.size() ? chain[i + 1].file->summary().root : none;
    require(wanted != none || next == none, "a parent too many in the chain");
    require(wanted == next, next == none ? "its parent is missing" : "another parent than its own");
  }
}

/// Follows references to a frame that stores its content, or is zero: as far as the chain is long,
/// and from there to a sibling.
SiblingFiles::Frame find(const std::vector<ChainFile>& chain, std::uint64_t index) {
  const FrameEntry asked = chain[0].file->frame(index);
  SiblingFiles::Frame source{chain[0].file, index, asked};
  std::size_t at = 0;
  while (source.entry.codec == Codec::reference) {
    const std::uint64_t number = source.entry.offset;
    require(++at < chain.size() && number < chain[at].file->summary().frames,
            "frame " + std::to_string(index) + ": refers to a frame that is not there");
    source = {chain[at].file, number, chain[at].file->frame(number)};
    require(source.entry.codec != Codec::zero && identity_of(source.entry) == identity_of(asked),
            "frame " + std::to_string(index) + ": refers to another content");
  }
  if (source.entry.codec != Codec::sibling) return source;
  require(chain[at].siblings != nullptr,
          "frame " + std::to_string(index) + ": is in another file, which is missing");
  return chain[at].siblings->find(source.entry);
}

/// The option of a writer that must have the codecs of these frames.
Compress codecs_of(const std::vector<ChainFile>& chain) {
  bool lz4 = false, planes = false;
  for (std::uint64_t i = 0; i < chain[0].file->summary().frames; ++i) {
    const Codec codec = find(chain, i).entry.codec;
    lz4 = lz4 || codec == Codec::lz4;
    planes = planes || codec == Codec::planes;
  }
  if (lz4) return planes ? Compress::automatic : Compress::lz4;
  return planes ? Compress::zstd : Compress::none;
}

}  // namespace

PagesSummary flatten_pages(const std::vector<ChainFile>& chain, int fd, std::stop_token stop,
                           ImageFrames* image) {
  check_chain(chain);
  const PagesReader& file = *chain[0].file;
  PagesOptions options = file.options();
  options.compress = codecs_of(chain);
  options.share = file.summary().digests;
  PagesWriter writer(fd, options, nullptr, options.share ? image : nullptr);
  FrameDecoder decoder;
  std::vector<std::byte> stored;
  std::vector<std::byte> content(options.frame_bytes);
  for (const BufferEntry& buffer : file.buffers()) {
    writer.begin_buffer(buffer.id, buffer.size);
    for (std::uint64_t i = buffer.first_frame; i < buffer.first_frame + buffer.frames; ++i) {
      if (stop.stop_requested()) throw Error(ErrorCode::cancelled, "flattening: cancelled");
      const SiblingFiles::Frame source = find(chain, i);
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
