#include "addon/descriptor.h"

#include <fcntl.h>

#include <string>
#include <utility>

#include "addon/convert.h"
#include "addon/instance.h"

namespace kfdcp::addon {

namespace {

Descriptor* unwrap(const Napi::Value& value, const char* what) {
  const Napi::FunctionReference& type = value.Env().GetInstanceData<Instance>()->descriptor;
  return Descriptor::Unwrap(to_instance(value, type, what, "a Descriptor"));
}

Napi::Value js_open_device(const Napi::CallbackInfo& info) {
  const std::string path = to_string(info[0], "path");
  return guarded(info.Env(), [&] {
    UniqueFd device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!device) throw io_error(path);
    return Descriptor::wrap(info.Env(), std::move(device));
  });
}

}  // namespace

void Descriptor::init(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(
      env, "Descriptor",
      {InstanceAccessor<&Descriptor::fd>("fd"), InstanceMethod<&Descriptor::close>("close")});
  env.GetInstanceData<Instance>()->descriptor = Napi::Persistent(type);
  exports.Set("Descriptor", type);
  exports.Set("openDevice", Napi::Function::New(env, js_open_device));
}

Napi::Object Descriptor::wrap(Napi::Env env, UniqueFd fd) {
  Napi::Object object = env.GetInstanceData<Instance>()->descriptor.New({});
  Unwrap(object)->fd_ = std::move(fd);
  return object;
}

int Descriptor::number(const Napi::Value& value, const char* what) {
  const Descriptor* descriptor = unwrap(value, what);
  if (!descriptor->fd_) throw Napi::TypeError::New(value.Env(), std::string(what) + ": closed");
  return descriptor->fd_.get();
}

UniqueFd Descriptor::copy(const Napi::Value& value, const char* what) {
  UniqueFd copy(::fcntl(number(value, what), F_DUPFD_CLOEXEC, 0));
  if (!copy) throw to_js_error(value.Env(), io_error(what));
  return copy;
}

Descriptor::Descriptor(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Descriptor>(info) {}

Napi::Value Descriptor::fd(const Napi::CallbackInfo& info) {
  return Napi::Number::New(info.Env(), fd_.get());
}

void Descriptor::close(const Napi::CallbackInfo&) { fd_ = UniqueFd(); }

}  // namespace kfdcp::addon
