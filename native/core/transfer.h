// Whole jobs: drain buffers into a pages file, fill buffers from one.
#pragma once

#include <atomic>
#include <cstdint>
#include <stop_token>
#include <vector>

#include "core/copy_engine.h"
#include "core/fd.h"
#include "core/pages.h"

namespace kfdcp {

struct ContentBuffer {
  std::uint32_t id;    // buffer id of the manifest
  std::uint64_t size;  // bytes
  UniqueFd dmabuf;
};

/// Read by other threads while a job runs.
struct TransferProgress {
  std::atomic<std::uint64_t> bytes_done{0};
};

struct TransferStats {
  std::uint64_t bytes = 0;
  std::uint64_t file_us = 0;  // reading or writing and coding frames
  std::uint64_t copy_us = 0;  // waiting for the copy engine
};

// Both jobs import a buffer just before its first copy and free it after its last, so that only as
// many are imported as have copies in flight, and one. However a job ends, nothing is in flight
// afterwards. A requested stop is seen before the next frame: Error{cancelled}. Errors of the
// engine carry "buffer <id>: " in front.

/// Copies every buffer into `out`, with as many copies in flight as the engine has slots; frames
/// are coded while later copies run. Slot size must be the frame size. Does not call finish().
TransferStats drain(CopyEngine& engine, const std::vector<ContentBuffer>& buffers, PagesWriter& out,
                    std::stop_token stop, TransferProgress& progress);

/// Fills every buffer from `in`, verifying each frame. A buffer that `in` lacks, or holds with
/// another size, is Error{corrupt}, before anything is written. Zero frames are written as zeros: a
/// fresh buffer may hold anything. Slots must hold a frame, else Error{unsupported}. Buffers are
/// filled in the order of the file.
TransferStats upload(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                     const PagesReader& in, std::stop_token stop, TransferProgress& progress);

}  // namespace kfdcp
