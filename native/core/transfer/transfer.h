// Whole jobs: drain buffers into a pages file, fill buffers from one.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/fd.h"
#include "core/pages/pages.h"

namespace kfdcp {

class FrameChain;

struct ContentBuffer {
  std::uint32_t id;    // buffer id of the manifest
  std::uint64_t size;  // bytes
  UniqueFd dmabuf;
  /// Of the content in the dma-buf, bytes; a multiple of 4096. None: it is the whole dma-buf.
  std::optional<std::uint64_t> offset = {};
};

/// Read by other threads while a job runs.
struct TransferProgress {
  std::atomic<std::uint64_t> bytes_done{0};
};

/// How a job's work is shared out.
struct TransferOptions {
  std::size_t workers = 1;  // threads that read or write and code frames; at most one per slot
};

/// What one stage of a job did.
struct StageStats {
  std::uint64_t bytes = 0;
  std::uint64_t busy_us = 0;  // of all its threads together
};

/// Where the time of a job went. The engine's thread waits for copies or for workers; workers wait
/// for work, and at a drain for their turn to place a frame.
struct TransferStats {
  std::uint64_t bytes = 0;  // of content
  std::size_t workers = 0;
  std::uint64_t wall_us = 0;
  StageStats file;                 // stored bytes read or written
  std::uint64_t direct_bytes = 0;  // of these, past the page cache
  StageStats code;                 // content tested, hashed, compressed or decompressed
  StageStats hash;                 // of that: content hashed
  std::uint64_t copy_wait_us = 0;  // the engine's thread: for copies
  std::uint64_t work_wait_us = 0;  // the engine's thread: for workers
  std::uint64_t turn_wait_us = 0;  // workers: for their turn

  /// The stage that held the job back: "copy", "file" or "code".
  const char* slowest() const;
};

// Both jobs import a buffer just before its first copy and free it after its last, so that only as
// many are imported as have copies in flight, and one. However a job ends, nothing is in flight
// and no thread runs afterwards. A requested stop is seen before the next copy: Error{cancelled}.
// Errors of the engine carry "buffer <id>: " in front, or "buffers <id> to <id>: " where several
// small ones share a copy. Of several errors the first is thrown.

/// Copies every buffer into `out`, with as many copies in flight as there are free slots; frames
/// are coded and written by the workers while other copies run. Slot size must be the frame size.
/// Does not call finish().
TransferStats drain(CopyEngine& engine, const std::vector<ContentBuffer>& buffers, PagesWriter& out,
                    const TransferOptions& options, std::stop_token stop,
                    TransferProgress& progress);

/// Fills every buffer from `in`, and from other files of `chain`, whose first is `in`, the frames
/// that they have. The workers read, decode and verify frames. Verified frames are copied in the
/// order of the file. A buffer that `in` lacks, or holds with another size, is Error{corrupt},
/// before anything is written. Zero frames are written as zeros: a fresh buffer may hold anything.
/// Slots must hold a frame, else Error{unsupported}, as are references to a parent or siblings
/// without a `chain` that has them.
TransferStats upload(CopyEngine& engine, const std::vector<ContentBuffer>& buffers,
                     const PagesReader& in, const TransferOptions& options, std::stop_token stop,
                     TransferProgress& progress, const FrameChain* chain = nullptr);

}  // namespace kfdcp
