// Drains, uploads and snapshots, each on its own thread, with progress and cancellation.
#pragma once

#include <napi.h>

#include <memory>

namespace kfdcp::addon {

struct JobState;

/// JS: `new TransferJob(options)` starts at once.
///   operation "drain" | "upload" | "snapshot"; path of the pages file (drain creates it, upload
///   reads it, snapshot has none); renderNode path; engine "auto" | "sdma" | "cpu"; slots,
///   slotBytes, workers; buffers {id, size, dmabuf, offset (optional)}[]; drain only: process, gpu,
///   compress, zstdLevel, parent (optional: path of a pages file, or of its index), frames
///   (optional: the ImageFrames of its image); snapshot only: hostBytes, most that it may take of
///   host memory. An upload reads other pages files in the folder of its own where that refers to
///   them.
/// `done` of a snapshot is a promise of {place "vram" | "host" | "none", memory (Descriptor[]),
/// places {memory (index), offset}[], wallUs}; of the others of {bytes, wallUs, workers, stages
/// {file, code, hash {bytes, busyUs}, copy, work {bytes, waitUs}}, directBytes, turnWaitUs,
/// slowest, engine, contentBytes, fileBytes, frames, zeroFrames, references, siblings, root, parent
/// (root of the parent, if any)}; `progress()` returns bytes done; `cancel()` makes `done` reject
/// with KFD_CANCELLED. It lives until `done` is settled, whoever holds it.
class TransferJob : public Napi::ObjectWrap<TransferJob> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit TransferJob(const Napi::CallbackInfo& info);
  ~TransferJob() override;

 private:
  Napi::Value done(const Napi::CallbackInfo& info);
  Napi::Value progress(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);

  std::shared_ptr<JobState> state_;
  Napi::ObjectReference promise_;
};

}  // namespace kfdcp::addon
