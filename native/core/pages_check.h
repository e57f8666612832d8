// Verifying a pages file that arrives as a stream, out of a compressed archive say.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/pages.h"

namespace kfdcp {

/// Verifies a pages file in one pass, front to back: every frame by the record before it, then the
/// index against those records. Accepts what PagesReader accepts with every frame readable, and
/// beyond that asks for zero padding and for equal records beside the frames and in the index.
/// Memory: two frames, 132 bytes per buffer, 16 bytes per frame that stores something; under
/// 256 MiB whatever the stream says.
class PagesStreamCheck {
 public:
  PagesStreamCheck();
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
