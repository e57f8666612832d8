#include "addon/transfer_job.h"

#include <fcntl.h>

#include <chrono>
#include <optional>
#include <thread>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/formats.h"
#include "addon/threads.h"
#include "addon/transfer_options.h"
#include "core/copy/copy_engine.h"
#include "core/os/numa.h"
#include "core/pages/chain_files.h"
#include "core/pages/pages_sink.h"
#include "core/transfer/snapshot.h"
#include "core/transfer/transfer.h"

namespace kfdcp::addon {

struct JobState {
  TransferJobOptions options;
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

/// Throws Error{engine} when SDMA cannot be set up: nothing has begun then, and the caller may try
/// the CPU.
std::unique_ptr<CopyEngine> make_engine(const TransferJobOptions& options,
                                        const EngineOptions& ring) {
  if (options.engine == "cpu") return make_cpu_engine(ring);
  try {
    const UniqueFd render = open_at(options.render_node, O_RDWR);
    return make_sdma_engine(render.get(), ring);
  } catch (const Error& error) {
    throw Error(ErrorCode::engine, std::string("SDMA: ") + error.what(), error.err);
  }
}

/// In VRAM, else in host memory, else nowhere.
void take_snapshot(JobState& job) {
  TransferJobOptions& options = job.options;
  const std::stop_token stop = job.stop.get_token();
  // Copies between buffers use no staging memory, and pinning it would take time.
  constexpr std::size_t kNoMemory = 4096;
  if (auto in_vram = snapshot_to_vram(
          *make_engine(options, {options.ring.slots, kNoMemory, options.ring.node}),
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

/// Threads that this one starts stay with it; so does the memory that they touch first.
void go_near(TransferJobOptions& options) {
  const std::optional<NumaNode> node = numa_node_of(options.render_node);
  if (!node) return;
  options.ring.node = node->id;
  (void)run_on_node(*node, options.transfer.workers);
}

void run(JobState& job) {
  TransferJobOptions& options = job.options;
  go_near(options);
  if (options.operation == Operation::snapshot) return take_snapshot(job);
  const auto engine = make_engine(options, options.ring);
  if (options.operation == Operation::upload) {
    std::vector<std::string> paths{options.path};
    paths.insert(paths.end(), options.parents.begin(), options.parents.end());
    const ChainFiles files(paths);
    const PagesReader& reader = files.chain().file();
    job.stats = upload(*engine, options.buffers, reader, options.transfer, job.stop.get_token(),
                       job.progress, &files.chain());
    job.summary = reader.summary();
  } else {
    const UniqueFd file = open_at(options.path, O_RDWR | O_CREAT | O_EXCL);
    const UniqueFd parent_file =
        options.parent.empty() ? UniqueFd() : open_at(options.parent, O_RDONLY);
    std::optional<PagesReader> parent;
    if (parent_file) parent.emplace(parent_file.get());
    auto sink = file_sink(file.get());
    if (options.stream) {
      sink = both_sinks(std::move(sink),
                        options.stream->file(options.pages.process, options.pages.gpu));
    }
    PagesWriter writer(std::move(sink), options.pages, parent ? &*parent : nullptr,
                       options.frames.get());
    job.stats = drain(*engine, options.buffers, writer, options.transfer, job.stop.get_token(),
                      job.progress);
    job.summary = writer.finish();
  }
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
  state_->options = read_transfer_options(info[0]);
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
    // Neither GPU memory nor a stream may outlive the transfer through this job.
    job->options.buffers.clear();
    job->options.stream.reset();
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
  // Keeps this object alive until `done` settles: its end would cancel the transfer.
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
