#include "addon/trials.h"

#include <amdgpu_drm.h>
#include <fcntl.h>

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "addon/convert.h"
#include "addon/promise_worker.h"
#include "core/copy/copy_engine.h"
#include "core/drm/gem.h"
#include "core/kfd/pause_trial.h"
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
  const bool spared = drm::domains_of(render_fd, handle) == AMDGPU_GEM_DOMAIN_VRAM;
  std::optional<UniqueFd> dmabuf = drm::export_dmabuf(render_fd, handle);
  drm::close_handle(render_fd, handle);
  if (!spared || !dmabuf) throw no_room(options.bytes);
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

Napi::Value copies_to_js(Napi::Env env, const CopyTrial& trial) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("bytes", to_number(env, trial.bytes));
  object.Set("writeUs", to_number(env, trial.write_us));
  object.Set("readUs", to_number(env, trial.read_us));
  return object;
}

Napi::Value pauses_to_js(Napi::Env env, const kfd::PauseTrial& trial) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("pauses", to_number(env, trial.pauses));
  object.Set("pauseUs", to_number(env, trial.pause_us));
  object.Set("longestPauseUs", to_number(env, trial.longest_pause_us));
  object.Set("unpauseUs", to_number(env, trial.unpause_us));
  object.Set("longestUnpauseUs", to_number(env, trial.longest_unpause_us));
  return object;
}

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
  return PromiseWorker<CopyTrial>::start_job(
      env,
      [options = std::move(options)](const std::stop_token& stop) { return run(options, stop); },
      copies_to_js);
}

Napi::Value js_try_pauses(const Napi::CallbackInfo& info) {
  const auto pid = static_cast<int>(to_uint32(info[0], "pid"));
  const unsigned times = to_uint32(info[1], "times");
  const std::chrono::microseconds between{to_uint32(info[2], "betweenUs")};
  return PromiseWorker<kfd::PauseTrial>::start(
      info.Env(), [=](const std::stop_token&) { return kfd::try_pauses_of(pid, times, between); },
      pauses_to_js);
}

}  // namespace

void init_trials(Napi::Env env, Napi::Object exports) {
  exports.Set("tryCopies", Napi::Function::New(env, js_try_copies));
  exports.Set("tryPauses", Napi::Function::New(env, js_try_pauses));
}

}  // namespace kfdcp::addon
