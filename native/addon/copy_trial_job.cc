#include "addon/copy_trial_job.h"

#include <amdgpu_drm.h>
#include <fcntl.h>

#include <exception>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "addon/convert.h"
#include "core/copy/copy_engine.h"
#include "core/drm/gem.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/os/numa.h"
#include "core/transfer/copy_trial.h"

namespace kfdcp::addon {

namespace {

struct TrialOptions {
  std::string render_node;
  bool by_cpu;
  EngineOptions ring;
  std::uint64_t bytes;
  std::uint64_t seed;
};

Error no_room(std::uint64_t bytes) {
  return Error(ErrorCode::gpu, "VRAM: no " + std::to_string(bytes >> 20) + " MiB to spare");
}

/// VRAM that lives by its dma-buf. That of the CPU must be where the CPU sees it.
UniqueFd vram(int render_fd, CopyEngine& engine, const TrialOptions& options) {
  if (!options.by_cpu) {
    auto spare = engine.allocate(options.bytes);
    if (!spare) throw no_room(options.bytes);
    return std::move(spare->dmabuf);
  }
  const std::uint32_t handle =
      drm::create_bo(render_fd, options.bytes, 4096, AMDGPU_GEM_DOMAIN_VRAM,
                     AMDGPU_GEM_CREATE_CPU_ACCESS_REQUIRED);
  std::optional<UniqueFd> dmabuf = drm::export_dmabuf(render_fd, handle);
  drm::close_handle(render_fd, handle);
  if (!dmabuf) throw no_room(options.bytes);
  return std::move(*dmabuf);
}

CopyTrial run(TrialOptions options, const std::stop_token& stop) {
  if (const auto node = numa_node_of(options.render_node)) options.ring.node = node->id;
  const UniqueFd render(::open(options.render_node.c_str(), O_RDWR | O_CLOEXEC));
  if (!render) throw io_error(options.render_node);
  const auto engine =
      options.by_cpu ? make_cpu_engine(options.ring) : make_sdma_engine(render.get(), options.ring);
  const ContentBuffer buffer{0, options.bytes, vram(render.get(), *engine, options), {}};
  return try_copies(*engine, buffer, options.seed, stop);
}

/// Deletes itself when it is done.
class TrialWorker : public Napi::AsyncWorker {
 public:
  TrialWorker(Napi::Env env, TrialOptions options)
      : Napi::AsyncWorker(env, "kfd-copy-trial"),
        deferred_(Napi::Promise::Deferred::New(env)),
        options_(std::move(options)) {}

  Napi::Promise done() const { return deferred_.Promise(); }
  std::stop_source stop() const { return stop_; }

 private:
  void Execute() override {
    try {
      trial_ = run(options_, stop_.get_token());
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void OnOK() override {
    try {
      if (failure_) std::rethrow_exception(failure_);
      Napi::Object result = Napi::Object::New(Env());
      result.Set("bytes", to_number(Env(), trial_.bytes));
      result.Set("writeUs", to_number(Env(), trial_.write_us));
      result.Set("readUs", to_number(Env(), trial_.read_us));
      deferred_.Resolve(result);
    } catch (const std::exception& error) {
      deferred_.Reject(to_js_error(Env(), error).Value());
    }
  }

  Napi::Promise::Deferred deferred_;
  TrialOptions options_;
  std::stop_source stop_;
  CopyTrial trial_{};
  std::exception_ptr failure_;
};

Napi::Value js_try_copies(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Object object = to_object(info[0], "options");
  const std::string engine = to_string(object.Get("engine"), "engine");
  if (engine != "sdma" && engine != "cpu") {
    throw Napi::TypeError::New(env, "engine: not one of sdma, cpu");
  }
  TrialOptions options{to_string(object.Get("renderNode"), "renderNode"),
                       engine == "cpu",
                       {to_uint32(object.Get("slots"), "slots"),
                        to_uint32(object.Get("slotBytes"), "slotBytes"),
                        {}},
                       to_uint64(object.Get("bytes"), "bytes"),
                       to_uint64(object.Get("seed"), "seed")};
  auto* const worker = new TrialWorker(env, std::move(options));
  Napi::Object job = Napi::Object::New(env);
  job.Set("done", worker->done());
  job.Set("cancel",
          Napi::Function::New(env, [stop = worker->stop()](const Napi::CallbackInfo&) mutable {
            stop.request_stop();
          }));
  worker->Queue();
  return job;
}

}  // namespace

void init_copy_trial(Napi::Env env, Napi::Object exports) {
  exports.Set("tryCopies", Napi::Function::New(env, js_try_copies));
}

}  // namespace kfdcp::addon
