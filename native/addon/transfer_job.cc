#include "addon/transfer_job.h"

#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/formats.h"
#include "addon/image_frames_js.h"
#include "addon/threads.h"
#include "core/copy/copy_engine.h"
#include "core/pages/sibling_files.h"
#include "core/transfer/snapshot.h"
#include "core/transfer/transfer.h"

namespace kfdcp::addon {

enum class Operation { drain, upload, snapshot };

struct JobOptions {
  Operation operation = Operation::drain;
  std::string path;
  std::string parent;                   // of a drain; empty: none
  std::shared_ptr<ImageFrames> frames;  // of a drain; may be missing
  std::string render_node;
  std::string engine;
  EngineOptions ring;
  TransferOptions transfer;
  PagesOptions pages;
  std::vector<ContentBuffer> buffers;
  std::uint64_t host_bytes = 0;  // of a snapshot: most of host memory
};

struct JobState {
  JobOptions options;
  TransferProgress progress;
  std::stop_source stop;
  TransferStats stats;
  PagesSummary summary;
  Snapshot snapshot;
  const char* place = "none";  // of the snapshot
  std::uint64_t wall_us = 0;
  std::exception_ptr failure;
};

namespace {

UniqueFd open_at(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

std::unique_ptr<CopyEngine> make_engine(JobOptions& options, const EngineOptions& ring) {
  if (options.engine != "cpu") {
    try {
      const UniqueFd render = open_at(options.render_node, O_RDWR);
      auto engine = make_sdma_engine(render.get(), ring);
      options.engine = "sdma";
      return engine;
    } catch (const Error&) {
      if (options.engine == "sdma") throw;
    }
  }
  options.engine = "cpu";
  return make_cpu_engine(ring);
}

/// In VRAM, else in host memory, else nowhere.
void take_snapshot(JobState& job) {
  JobOptions& options = job.options;
  const std::stop_token stop = job.stop.get_token();
  // Copies between buffers take turns, not memory, and pinning that takes time.
  constexpr std::size_t kNoMemory = 4096;
  if (auto in_vram = snapshot_to_vram(*make_engine(options, {options.ring.slots, kNoMemory}),
                                      options.buffers, stop)) {
    job.snapshot = std::move(*in_vram);
    job.place = "vram";
    return;
  }
  std::uint64_t bytes = 0;
  for (const std::uint64_t part : plan_snapshot(options.buffers, ~std::uint64_t{0}).memory) {
    bytes += part;
  }
  if (bytes > options.host_bytes) return;
  job.snapshot = snapshot_to_host(*make_engine(options, options.ring), options.buffers,
                                  options.transfer, stop);
  job.place = "host";
}

void run(JobState& job) {
  JobOptions& options = job.options;
  if (options.operation == Operation::snapshot) return take_snapshot(job);
  const auto engine = make_engine(options, options.ring);
  if (options.operation == Operation::upload) {
    const UniqueFd file = open_at(options.path, O_RDONLY);
    const PagesReader reader(file.get());
    SiblingFiles siblings(siblings_in(std::filesystem::path(options.path).parent_path()));
    job.stats = upload(*engine, options.buffers, reader, options.transfer, job.stop.get_token(),
                       job.progress, &siblings);
    job.summary = reader.summary();
  } else {
    const UniqueFd file = open_at(options.path, O_RDWR | O_CREAT | O_EXCL);
    const UniqueFd parent_file =
        options.parent.empty() ? UniqueFd() : open_at(options.parent, O_RDONLY);
    std::optional<PagesReader> parent;
    if (parent_file) parent.emplace(parent_file.get());
    PagesWriter writer(file.get(), options.pages, parent ? &*parent : nullptr,
                       options.frames.get());
    job.stats = drain(*engine, options.buffers, writer, options.transfer, job.stop.get_token(),
                      job.progress);
    job.summary = writer.finish();
  }
}

Compress to_compress(const Napi::Value& value) {
  const std::string name = to_string(value, "compress");
  if (name == "none") return Compress::none;
  if (name == "auto") return Compress::automatic;
  if (name == "lz4") return Compress::lz4;
  if (name == "zstd") return Compress::zstd;
  throw Napi::TypeError::New(value.Env(), "compress: not one of none, auto, lz4, zstd");
}

Operation to_operation(const Napi::Value& value) {
  const std::string name = to_string(value, "operation");
  if (name == "drain") return Operation::drain;
  if (name == "upload") return Operation::upload;
  if (name == "snapshot") return Operation::snapshot;
  throw Napi::TypeError::New(value.Env(), "operation: not one of drain, upload, snapshot");
}

JobOptions read_options(const Napi::Value& value) {
  const Napi::Object object = to_object(value, "options");
  JobOptions options;
  options.operation = to_operation(object.Get("operation"));
  options.render_node = to_string(object.Get("renderNode"), "renderNode");
  options.engine = to_string(object.Get("engine"), "engine");
  options.ring.slots = to_uint32(object.Get("slots"), "slots");
  options.ring.slot_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
  options.transfer.workers = to_uint32(object.Get("workers"), "workers");
  if (options.operation == Operation::snapshot) {
    options.host_bytes = to_uint64(object.Get("hostBytes"), "hostBytes");
  } else {
    options.path = to_string(object.Get("path"), "path");
  }
  if (options.operation == Operation::drain) {
    options.pages.compress = to_compress(object.Get("compress"));
    options.pages.zstd_level = static_cast<int>(to_uint32(object.Get("zstdLevel"), "zstdLevel"));
    options.pages.frame_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
    options.pages.share = true;
    const Napi::Value parent = object.Get("parent");
    if (!parent.IsUndefined()) options.parent = to_string(parent, "parent");
    const Napi::Value frames = object.Get("frames");
    if (!frames.IsUndefined()) options.frames = ImageFramesJs::shared(frames, "frames");
    options.pages.process = to_uint32(object.Get("process"), "process");
    options.pages.gpu = to_uint32(object.Get("gpu"), "gpu");
  }
  const auto buffers = object.Get("buffers").As<Napi::Array>();
  for (std::uint32_t i = 0; i < buffers.Length(); ++i) {
    const Napi::Object buffer = to_object(buffers.Get(i), "buffers");
    const Napi::Value offset = buffer.Get("offset");
    options.buffers.push_back({to_uint32(buffer.Get("id"), "buffers.id"),
                               to_uint64(buffer.Get("size"), "buffers.size"),
                               Descriptor::copy(buffer.Get("dmabuf"), "buffers.dmabuf"),
                               offset.IsUndefined() ? 0 : to_uint64(offset, "buffers.offset")});
  }
  return options;
}

Napi::Object stages(Napi::Env env, const TransferStats& stats) {
  const auto stage = [&](std::uint64_t bytes, const char* time, std::uint64_t us) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("bytes", to_number(env, bytes));
    object.Set(time, to_number(env, us));
    return object;
  };
  Napi::Object object = Napi::Object::New(env);
  object.Set("file", stage(stats.file.bytes, "busyUs", stats.file.busy_us));
  object.Set("code", stage(stats.code.bytes, "busyUs", stats.code.busy_us));
  object.Set("hash", stage(stats.hash.bytes, "busyUs", stats.hash.busy_us));
  object.Set("copy", stage(stats.bytes, "waitUs", stats.copy_wait_us));
  object.Set("work", stage(stats.bytes, "waitUs", stats.work_wait_us));
  return object;
}

Napi::Object snapshot_result(Napi::Env env, JobState& job) {
  const auto array = [&](std::size_t size, auto&& element) {
    Napi::Array values = Napi::Array::New(env, size);
    for (std::uint32_t i = 0; i < size; ++i) values.Set(i, element(i));
    return values;
  };
  std::vector<SnapshotPlace>& places = job.snapshot.places;
  Napi::Object object = Napi::Object::New(env);
  object.Set("place", job.place);
  object.Set("wallUs", to_number(env, job.wall_us));
  object.Set("memory", array(job.snapshot.memory.size(), [&](std::uint32_t i) {
               return Descriptor::wrap(env, std::move(job.snapshot.memory[i]));
             }));
  object.Set("places", array(places.size(), [&](std::uint32_t i) {
               Napi::Object place = Napi::Object::New(env);
               place.Set("memory", to_number(env, places[i].memory));
               place.Set("offset", to_number(env, places[i].offset));
               return place;
             }));
  return object;
}

Napi::Object result(Napi::Env env, JobState& job) {
  if (job.options.operation == Operation::snapshot) return snapshot_result(env, job);
  Napi::Object object = summary_to_js(env, job.summary);
  object.Set("bytes", to_number(env, job.stats.bytes));
  object.Set("wallUs", to_number(env, job.wall_us));
  object.Set("workers", to_number(env, job.stats.workers));
  object.Set("stages", stages(env, job.stats));
  object.Set("directBytes", to_number(env, job.stats.direct_bytes));
  object.Set("turnWaitUs", to_number(env, job.stats.turn_wait_us));
  object.Set("slowest", job.stats.slowest());
  object.Set("engine", job.options.engine);
  return object;
}

}  // namespace

void TransferJob::init(Napi::Env env, Napi::Object exports) {
  exports.Set("TransferJob", DefineClass(env, "TransferJob",
                                         {InstanceAccessor<&TransferJob::done>("done"),
                                          InstanceMethod<&TransferJob::progress>("progress"),
                                          InstanceMethod<&TransferJob::cancel>("cancel")}));
}

TransferJob::TransferJob(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<TransferJob>(info), state_(std::make_shared<JobState>()) {
  const Napi::Env env = info.Env();
  state_->options = read_options(info[0]);
  auto deferred = std::make_shared<Napi::Promise::Deferred>(env);
  promise_ = Napi::Persistent(deferred->Promise().As<Napi::Object>());
  auto settle = Napi::ThreadSafeFunction::New(
      env, Napi::Function::New(env, [](const Napi::CallbackInfo&) {}), "kfd-transfer", 0, 1);

  // The thread owns the job: it outlives this object when the environment is torn down half-way.
  const auto work = [this, job = state_, deferred, settle]() mutable {
    const auto start = std::chrono::steady_clock::now();
    try {
      run(*job);
    } catch (...) {
      job->failure = std::current_exception();
    }
    job->wall_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                                  std::chrono::steady_clock::now() - start)
                                                  .count());
    // GPU memory must not outlive the transfer through these descriptors.
    job->options.buffers.clear();
    settle.BlockingCall([this, job, deferred](Napi::Env env, Napi::Function) {
      Unref();
      try {
        if (job->failure) std::rethrow_exception(job->failure);
        deferred->Resolve(result(env, *job));
      } catch (const Napi::Error& error) {
        deferred->Reject(error.Value());
      } catch (const std::exception& error) {
        deferred->Reject(to_js_error(env, error).Value());
      }
    });
    settle.Release();
  };
  // Whoever waits for `done` need not keep this object as well: its end would cancel the transfer.
  Ref();
  try {
    guarded(env, [&] { start_thread(settle, work).detach(); });
  } catch (...) {
    Unref();
    throw;
  }
}

TransferJob::~TransferJob() { state_->stop.request_stop(); }

Napi::Value TransferJob::done(const Napi::CallbackInfo&) { return promise_.Value(); }

Napi::Value TransferJob::progress(const Napi::CallbackInfo& info) {
  return to_number(info.Env(), state_->progress.bytes_done.load());
}

void TransferJob::cancel(const Napi::CallbackInfo&) { state_->stop.request_stop(); }

}  // namespace kfdcp::addon
