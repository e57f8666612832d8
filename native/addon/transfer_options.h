// The options of a transfer, from JavaScript.
#pragma once

#include <napi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/pages/contents_stream.h"
#include "core/pages/image_frames.h"
#include "core/pages/pages.h"
#include "core/transfer/transfer.h"

namespace kfdcp::addon {

enum class Operation { drain, upload, snapshot };

/// What a transfer is to do, and with what.
struct TransferJobOptions {
  Operation operation = Operation::drain;
  std::string path;                        // unless it is a snapshot
  std::vector<std::string> parents;        // of an upload: ancestors of `path`, nearest first
  std::shared_ptr<ContentsSender> stream;  // of a drain, beside `path`; may be missing
  std::string parent;                      // of a drain; empty: none
  std::shared_ptr<ImageFrames> frames;     // of a drain; may be missing
  std::string render_node;
  std::string engine;  // "sdma" or "cpu"
  EngineOptions ring;
  TransferOptions transfer;
  PagesOptions pages;
  std::vector<ContentBuffer> buffers;
  std::uint64_t host_bytes = 0;  // of a snapshot: most of host memory
};

/// The dma-bufs are duplicated. Throws a TypeError for members that are missing or of another type.
TransferJobOptions read_transfer_options(const Napi::Value& value);

}  // namespace kfdcp::addon
