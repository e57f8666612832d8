#include "addon/byte_locks_js.h"

#include <cstdint>
#include <string>
#include <vector>

#include "addon/convert.h"

namespace kfdcp::addon {

void ByteLocksJs::init(Napi::Env env, Napi::Object exports) {
  exports.Set("ByteLocks", DefineClass(env, "ByteLocks",
                                       {InstanceMethod<&ByteLocksJs::take>("take"),
                                        InstanceMethod<&ByteLocksJs::close>("close")}));
}

ByteLocksJs::ByteLocksJs(const Napi::CallbackInfo& info) : Napi::ObjectWrap<ByteLocksJs>(info) {
  const std::string path = to_string(info[0], "path");
  guarded(info.Env(), [&] { locks_ = std::make_unique<ByteLocks>(path); });
}

Napi::Value ByteLocksJs::take(const Napi::CallbackInfo& info) {
  if (!info[0].IsArray()) throw Napi::TypeError::New(info.Env(), "places: not an array");
  const auto given = info[0].As<Napi::Array>();
  std::vector<std::uint64_t> places;
  for (std::uint32_t at = 0; at < given.Length(); ++at) {
    places.push_back(to_uint64(given.Get(at), "places"));
  }
  return guarded(info.Env(), [&] {
    return Napi::Boolean::New(info.Env(), locks_ != nullptr && locks_->take(places));
  });
}

void ByteLocksJs::close(const Napi::CallbackInfo&) { locks_.reset(); }

}  // namespace kfdcp::addon
