// The pages file: contents of buffers in checksummed frames. Format: docs/image-format.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kfdcp {

enum class Codec : std::uint8_t {
  zero = 0,
  raw = 1,
  zstd = 2,
  reference = 3,
  lz4 = 4,
  planes = 5,
  sibling = 6
};

/// What a writer does with frames that are not zero. Those that gain less than a sixteenth stay
/// raw.
enum class Compress : std::uint8_t {
  none,
  automatic,  // what makes them small and costs no time: core/pages/codec_choice.h
  lz4,
  zstd,  // also of byte planes, where that is smaller
};

struct PagesOptions {
  Compress compress = Compress::none;
  int zstd_level = 1;
  bool share = false;                    // digests for all frames; equal ones are stored once
  std::uint32_t frame_bytes = 2u << 20;  // content per frame, 1-4 MiB, multiple of 4096
  std::uint32_t process = 0;             // ordinal of the process, as in the manifest
  std::uint32_t gpu = 0;                 // ordinal of the GPU, as in the manifest
};

struct BufferEntry {
  std::uint32_t id;           // buffer id of the manifest
  std::uint64_t size;         // bytes of content
  std::uint64_t first_frame;  // index of its first frame
  std::uint64_t frames;
};

struct FrameEntry {
  std::uint64_t offset;  // in the file; 0 for Codec::zero; Codec::reference: number of the frame in
                         // the parent; Codec::sibling: a SiblingFrame, packed
  std::uint32_t stored;  // bytes in the file; 0 where !is_stored(codec)
  std::uint32_t raw;     // bytes of content
  Codec codec;
  std::uint64_t checksum;                 // XXH3-64 of the content; 0 for Codec::zero
  std::array<std::uint8_t, 16> digest{};  // XXH3-128 of the content; 0: none, or Codec::zero
  bool operator==(const FrameEntry&) const = default;
};

/// Whether bytes in the file belong to a frame of this codec.
constexpr bool is_stored(Codec codec) {
  return codec != Codec::zero && codec != Codec::reference && codec != Codec::sibling;
}

/// Of processes and GPUs, where siblings are.
inline constexpr std::uint32_t kMaxSiblingOrdinal = 0xffff;

/// A frame of another pages file of the image: the file by the ordinals in its header, the frame by
/// its number in that file's index.
struct SiblingFrame {
  std::uint16_t process;
  std::uint16_t gpu;
  std::uint32_t frame;
  constexpr std::uint64_t packed() const {
    return std::uint64_t{process} << 48 | std::uint64_t{gpu} << 32 | frame;
  }
  static constexpr SiblingFrame unpacked(std::uint64_t value) {
    return {static_cast<std::uint16_t>(value >> 48), static_cast<std::uint16_t>(value >> 32),
            static_cast<std::uint32_t>(value)};
  }
};

struct PagesSummary {
  std::uint64_t content_bytes = 0;  // sum of buffer sizes
  std::uint64_t file_bytes = 0;
  std::uint64_t frames = 0;
  std::uint64_t zero_frames = 0;
  std::uint64_t references = 0;           // frames whose contents are in the parent
  std::uint64_t siblings = 0;             // frames whose contents are in other files of the image
  bool digests = false;                   // frames have them: the file can be a parent
  std::array<std::uint8_t, 16> root{};    // XXH3-128 over the index: the digest the manifest keeps
  std::array<std::uint8_t, 16> parent{};  // root of the parent; 0: none
};

struct EncodedFrame;
class FrameEncoder;
class ImageFrames;
class PagesReader;
class PagesSink;

/// Where a frame goes, and what the index says of it.
struct PlacedFrame {
  bool is_new;          // to be written: neither zero nor stored before
  std::uint64_t begin;  // of its record in the file, bytes
  FrameEntry entry;
};

/// Writes one pages file, once, front to back. `fd` is borrowed; it must be an empty regular file.
/// Frames of a buffer are appended in order, each frame_bytes long but the last of a buffer.
/// Several threads can share the work: each encodes with an encoder of its own, one after the other
/// places its frame, in the order of the frames, and all write what they placed.
/// Throws Error{io} (ENOSPC...), Error{protocol} on misuse.
class PagesWriter {
 public:
  /// With a `parent`, only read here, or an `image`, which outlives this: frames that it has are
  /// not stored but refer to it. Frames stored here are added to `image`. Both need options.share;
  /// a parent without digests is Error{unsupported}, ordinals of 2^16 and more in an image are
  /// Error{protocol}.
  PagesWriter(int fd, const PagesOptions& options, const PagesReader* parent = nullptr,
              ImageFrames* image = nullptr);
  /// The same, to wherever `sink` brings them.
  PagesWriter(std::unique_ptr<PagesSink> sink, const PagesOptions& options,
              const PagesReader* parent = nullptr, ImageFrames* image = nullptr);
  ~PagesWriter();
  PagesWriter(const PagesWriter&) = delete;
  PagesWriter& operator=(const PagesWriter&) = delete;

  void begin_buffer(std::uint32_t id, std::uint64_t size);
  /// Encodes, places and writes the next frame.
  void append(std::span<const std::byte> frame);
  /// An encoder with this file's options, for one thread; the writer outlives it. Any thread may
  /// ask.
  std::unique_ptr<FrameEncoder> make_encoder() const;
  /// Gives the next frame, of `raw` bytes of content, its place. What is new must be written.
  PlacedFrame place(std::size_t raw, const EncodedFrame& frame);
  /// Writes frames to their places, neighbours together. Any thread, also while others write or
  /// place. A raw frame in page-aligned memory goes past the page cache where the file system
  /// permits.
  void write(std::span<const PlacedFrame> placed, std::span<const EncodedFrame> frames);
  /// The index. Everything placed must be written.
  PagesSummary finish();
  /// Bytes that went past the page cache so far.
  std::uint64_t direct_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Part of a file, in bytes: a pages file may lie inside an uncompressed archive.
struct FileRange {
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;  // none: up to the end of the file
};

/// What a pages file says about itself without its frames.
struct PagesListing {
  PagesOptions options;  // frame_bytes, process and gpu as recorded
  PagesSummary summary;
  std::vector<BufferEntry> buffers;
};

/// Lists a pages file without reading its frames or their records: 4.3 KiB, 32 bytes per buffer
/// and 8 bytes per GiB. All that is returned is covered by summary.root. `fd` is borrowed. Throws
/// as PagesReader does.
PagesListing list_pages(int fd, const FileRange& range = {});

/// Reads a pages file by index. The constructor validates header, footer and every index checksum
/// and bound before anything else is believed. `fd` is borrowed for the life of the reader.
/// Throws Error{corrupt|unsupported|io}; a frame index beyond the last is Error{protocol}.
class PagesReader {
 public:
  explicit PagesReader(int fd, const FileRange& range = {});
  ~PagesReader();
  PagesReader(const PagesReader&) = delete;
  PagesReader& operator=(const PagesReader&) = delete;

  const PagesOptions& options() const;  // frame_bytes, process and gpu as recorded
  const PagesSummary& summary() const;
  const std::vector<BufferEntry>& buffers() const;
  FrameEntry frame(std::uint64_t index) const;  // its offset counts from the start of the range
  /// Reads bytes of the file, of one stored frame or of neighbours, unchecked. `offset` counts from
  /// the start of the range. Whole pages in page-aligned memory are read past the page cache where
  /// they are not in it. Several threads may call it at once.
  void read_range(std::uint64_t offset, std::span<std::byte> out) const;
  /// Bytes that came past the page cache so far.
  std::uint64_t direct_bytes() const;
  /// Reads frame `index` into `out` (exactly its raw size), decodes it and checks its checksum.
  /// Error{unsupported} for content of another file: core/pages/pages_chain.h and
  /// core/pages/sibling_files.h follow that. Several threads may call it at once. After an error
  /// `out` holds anything.
  void read_frame(std::uint64_t index, std::span<std::byte> out) const;
  /// The stored bytes of frame `index` into `out` (exactly as many), not checked.
  void read_stored(std::uint64_t index, std::span<std::byte> out) const;
  /// Throws Error{corrupt} unless this is the file of process ordinal `process` on GPU ordinal
  /// `gpu`, and its index has `root`. Without `root` the caller cannot know it.
  void expect(std::uint32_t process, std::uint32_t gpu,
              const std::optional<std::array<std::uint8_t, 16>>& root) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kfdcp
