#include "addon/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <csignal>
#include <memory>
#include <vector>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/threads.h"
#include "core/kfd/kfd.h"
#include "core/kfd/queue_probe.h"
#include "core/kfd/traced.h"
#include "core/os/cpu.h"
#include "core/os/device_filter.h"
#include "core/os/procfs.h"

namespace kfdcp::addon {

namespace {

UniqueFd open_kfd() {
  UniqueFd fd(::open("/dev/kfd", O_RDWR | O_CLOEXEC));
  if (!fd) throw io_error("/dev/kfd");
  return fd;
}

bool alive(int pidfd) {
  pollfd poller{pidfd, POLLIN, 0};
  return ::poll(&poller, 1, 0) == 0;
}

Napi::Value js_open_pidfd(const Napi::CallbackInfo& info) {
  const auto pid = static_cast<int>(to_uint32(info[0], "pid"));
  return guarded(info.Env(), [&] { return Descriptor::wrap(info.Env(), procfs::open_pidfd(pid)); });
}

Napi::Value js_is_alive(const Napi::CallbackInfo& info) {
  return Napi::Boolean::New(info.Env(), alive(Descriptor::number(info[0], "pidfd")));
}

void js_kill(const Napi::CallbackInfo& info) {
  const int pidfd = Descriptor::number(info[0], "pidfd");
  ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
}

Napi::Value js_watch_exit(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  auto pidfd = std::make_shared<UniqueFd>(Descriptor::copy(info[0], "pidfd"));
  auto stop = std::make_shared<UniqueFd>(::eventfd(0, EFD_CLOEXEC));
  if (!*stop) throw to_js_error(env, io_error("eventfd"));
  auto deliver = Napi::ThreadSafeFunction::New(env, info[1].As<Napi::Function>(), "kfd-exit", 0, 1);
  const auto watch = [=]() mutable {
    pollfd pollers[2] = {{pidfd->get(), POLLIN, 0}, {stop->get(), POLLIN, 0}};
    while (::poll(pollers, 2, -1) <= 0) {
    }
    if (pollers[1].revents == 0) {
      deliver.BlockingCall([](Napi::Env, Napi::Function on_exit) { on_exit.Call({}); });
    }
    deliver.Release();
  };
  guarded(env, [&] { start_thread(deliver, watch).detach(); });
  return Napi::Function::New(env, [stop](const Napi::CallbackInfo&) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(stop->get(), &one, sizeof one);
  });
}

Napi::Value js_kfd_version(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const UniqueFd kfd = open_kfd();
    const kfd::Version version = kfd::version(kfd.get());
    Napi::Object object = Napi::Object::New(info.Env());
    object.Set("major", version.major);
    object.Set("minor", version.minor);
    return object;
  });
}

Napi::Value js_xsave_bytes(const Napi::CallbackInfo& info) {
  const auto bytes = cpu::xsave_bytes();
  if (!bytes) return info.Env().Undefined();
  return Napi::Number::New(info.Env(), *bytes);
}

void js_kfd_resume(const Napi::CallbackInfo& info) {
  const std::uint32_t pid = to_uint32(info[0], "pid");
  guarded(info.Env(), [&] {
    const UniqueFd kfd = open_kfd();
    kfd::resume(kfd.get(), pid);
  });
}

void js_attach_device_filter(const Napi::CallbackInfo& info) {
  const std::string cgroup = info[0].As<Napi::String>();
  const auto minors = info[1].As<Napi::Array>();
  guarded(info.Env(), [&] {
    std::vector<std::uint32_t> allowed;
    for (std::uint32_t i = 0; i < minors.Length(); ++i) {
      allowed.push_back(to_uint32(minors.Get(i), "renderMinors"));
    }
    attach_device_filter(cgroup, allowed);
  });
}

Napi::Value js_kfd_unpause(const Napi::CallbackInfo& info) {
  const auto pid = static_cast<pid_t>(to_uint32(info[0], "pid"));
  const int kfd_fd = Descriptor::number(info[1], "kfd");
  return guarded(info.Env(), [&] {
    bool was_paused = false;
    kfd::as_tracer_of(pid, [&] { was_paused = kfd::unpause(kfd_fd); });
    return Napi::Boolean::New(info.Env(), was_paused);
  });
}

/// {gpus: [{gpuId, renderNode}], gpuId, type, dieBytes, mqdBytes}: "yes", "no" or "unknown".
Napi::Value js_kfd_restore_takes(const Napi::CallbackInfo& info) {
  const auto options = info[0].As<Napi::Object>();
  const auto number = [&](const char* name) { return to_uint32(options.Get(name), name); };
  const auto listed = options.Get("gpus").As<Napi::Array>();
  std::vector<kfd::ProbeGpu> gpus;
  for (std::uint32_t i = 0; i < listed.Length(); ++i) {
    const auto gpu = listed.Get(i).As<Napi::Object>();
    gpus.push_back(
        {to_uint32(gpu.Get("gpuId"), "gpuId"), gpu.Get("renderNode").As<Napi::String>()});
  }
  const kfd::ProbedQueue queue{number("gpuId"), number("type"), number("dieBytes"),
                               number("mqdBytes")};
  return guarded(info.Env(), [&] {
    static constexpr const char* kWords[] = {"no", "yes", "unknown"};
    const auto taken = static_cast<std::size_t>(kfd::restore_takes(gpus, queue));
    return Napi::String::New(info.Env(), kWords[taken]);
  });
}

}  // namespace

void init_process(Napi::Env env, Napi::Object exports) {
  exports.Set("openPidfd", Napi::Function::New(env, js_open_pidfd));
  exports.Set("isAlive", Napi::Function::New(env, js_is_alive));
  exports.Set("kill", Napi::Function::New(env, js_kill));
  exports.Set("watchExit", Napi::Function::New(env, js_watch_exit));
  exports.Set("attachDeviceFilter", Napi::Function::New(env, js_attach_device_filter));
  exports.Set("kfdVersion", Napi::Function::New(env, js_kfd_version));
  exports.Set("xsaveBytes", Napi::Function::New(env, js_xsave_bytes));
  exports.Set("kfdResume", Napi::Function::New(env, js_kfd_resume));
  exports.Set("kfdRestoreTakes", Napi::Function::New(env, js_kfd_restore_takes));
  exports.Set("kfdUnpause", Napi::Function::New(env, js_kfd_unpause));
}

}  // namespace kfdcp::addon
