#include "addon/transfer_job.h"

#include <fcntl.h>

#include <chrono>
#include <optional>
#include <thread>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/formats.h"
#include "addon/threads.h"
#include "core/copy_engine.h"
#include "core/transfer.h"

namespace kfdcp::addon {

struct JobOptions {
  bool upload = false;
  std::string path;
  std::string parent;  // of a drain; empty: none
  std::string render_node;
  std::string engine;
  EngineOptions ring;
  TransferOptions transfer;
  PagesOptions pages;
  std::vector<ContentBuffer> buffers;
};

struct JobState {
  JobOptions options;
  TransferProgress progress;
  std::stop_source stop;
  TransferStats stats;
  PagesSummary summary;
  std::uint64_t wall_us = 0;
  std::exception_ptr failure;
};

namespace {

UniqueFd open_at(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

std::unique_ptr<CopyEngine> make_engine(JobOptions& options) {
  if (options.engine != "cpu") {
    try {
      const UniqueFd render = open_at(options.render_node, O_RDWR);
      auto engine = make_sdma_engine(render.get(), options.ring);
      options.engine = "sdma";
      return engine;
    } catch (const Error&) {
      if (options.engine == "sdma") throw;
    }
  }
  options.engine = "cpu";
  return make_cpu_engine(options.ring);
}

void run(JobState& job) {
  JobOptions& options = job.options;
  const auto engine = make_engine(options);
  if (options.upload) {
    const UniqueFd file = open_at(options.path, O_RDONLY);
    const PagesReader reader(file.get());
    job.stats = upload(*engine, options.buffers, reader, options.transfer, job.stop.get_token(),
                       job.progress);
    job.summary = reader.summary();
  } else {
    const UniqueFd file = open_at(options.path, O_RDWR | O_CREAT | O_EXCL);
    const UniqueFd parent_file =
        options.parent.empty() ? UniqueFd() : open_at(options.parent, O_RDONLY);
    std::optional<PagesReader> parent;
    if (parent_file) parent.emplace(parent_file.get());
    PagesWriter writer(file.get(), options.pages, parent ? &*parent : nullptr);
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

JobOptions read_options(const Napi::Value& value) {
  const Napi::Object object = to_object(value, "options");
  JobOptions options;
  options.upload = to_string(object.Get("operation"), "operation") == "upload";
  options.path = to_string(object.Get("path"), "path");
  options.render_node = to_string(object.Get("renderNode"), "renderNode");
  options.engine = to_string(object.Get("engine"), "engine");
  options.ring.slots = to_uint32(object.Get("slots"), "slots");
  options.ring.slot_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
  options.transfer.workers = to_uint32(object.Get("workers"), "workers");
  if (!options.upload) {
    options.pages.compress = to_compress(object.Get("compress"));
    options.pages.zstd_level = static_cast<int>(to_uint32(object.Get("zstdLevel"), "zstdLevel"));
    options.pages.frame_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
    options.pages.share = true;
    const Napi::Value parent = object.Get("parent");
    if (!parent.IsUndefined()) options.parent = to_string(parent, "parent");
    options.pages.process = to_uint32(object.Get("process"), "process");
    options.pages.gpu = to_uint32(object.Get("gpu"), "gpu");
  }
  const auto buffers = object.Get("buffers").As<Napi::Array>();
  for (std::uint32_t i = 0; i < buffers.Length(); ++i) {
    const Napi::Object buffer = to_object(buffers.Get(i), "buffers");
    options.buffers.push_back({to_uint32(buffer.Get("id"), "buffers.id"),
                               to_uint64(buffer.Get("size"), "buffers.size"),
                               Descriptor::copy(buffer.Get("dmabuf"), "buffers.dmabuf")});
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

Napi::Object result(Napi::Env env, const JobState& job) {
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
