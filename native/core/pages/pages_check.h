// Verifying a pages file from a stream, for example from a compressed archive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "core/pages/pages.h"

namespace kfdcp {

/// Verifies a pages file in one pass, front to back: every frame by the record before it, then the
/// index against those records. Accepts what PagesReader accepts with every frame readable, and
/// beyond that asks for zero padding and for equal records beside the frames and in the index.
/// References are not followed, nor are siblings: core/pages/sibling_check.h looks whether they are
/// there. Memory: two frames, 132 bytes per buffer, 16 bytes per frame that stores something; under
/// 256 MiB whatever the stream says.
class PagesStreamCheck {
 public:
  /// Gets all bytes outside frames, with their offset in the file. PagesReader opens a file of
  /// them, with holes for the rest. It lists the frames but cannot read them. Trust it only after
  /// finish().
  using IndexSink = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

  /// Gets every frame of the index, in its order. Believe it only after finish().
  using FrameSink = std::function<void(const FrameEntry& frame)>;

  explicit PagesStreamCheck(IndexSink index = {}, FrameSink frames = {});
  ~PagesStreamCheck();
  PagesStreamCheck(const PagesStreamCheck&) = delete;
  PagesStreamCheck& operator=(const PagesStreamCheck&) = delete;

  /// The next bytes, cut anywhere. Throws Error{corrupt|unsupported} as soon as they show it;
  /// Error{protocol} on any call after that.
  void feed(std::span<const std::byte> bytes);
  /// After the last byte. Throws Error{corrupt} when the file is not complete.
  PagesListing finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kfdcp
