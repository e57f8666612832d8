#include "addon/staging.h"

#include "addon/convert.h"

namespace kfdcp::addon {

void StagingClaim::init(Napi::Env env, Napi::Object exports) {
  exports.Set("StagingClaim", DefineClass(env, "StagingClaim",
                                          {InstanceMethod<&StagingClaim::poll>("poll"),
                                           InstanceMethod<&StagingClaim::close>("close")}));
}

StagingClaim::StagingClaim(const Napi::CallbackInfo& info) : Napi::ObjectWrap<StagingClaim>(info) {
  const Napi::Object object = to_object(info[0], "request");
  const auto number = [&](const char* name) { return to_uint32(object.Get(name), name); };
  const std::string file = to_string(object.Get("file"), "file");
  const kfdcp::StagingClaim::Request request{.total = number("total"),
                                             .wanted = number("wanted"),
                                             .transfers = number("transfers"),
                                             .session = number("session")};
  guarded(info.Env(), [&] { claim_ = std::make_unique<kfdcp::StagingClaim>(file, request); });
}

Napi::Value StagingClaim::poll(const Napi::CallbackInfo& info) {
  return guarded(info.Env(),
                 [&] { return Napi::Number::New(info.Env(), claim_ ? claim_->poll() : 0); });
}

void StagingClaim::close(const Napi::CallbackInfo&) { claim_.reset(); }

}  // namespace kfdcp::addon
