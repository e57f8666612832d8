#include "addon/pages_check_js.h"

#include "addon/convert.h"
#include "addon/formats.h"

namespace kfdcp::addon {

void PagesCheckJs::init(Napi::Env env, Napi::Object exports) {
  exports.Set("PagesCheck", DefineClass(env, "PagesCheck",
                                        {InstanceMethod<&PagesCheckJs::feed>("feed"),
                                         InstanceMethod<&PagesCheckJs::finish>("finish")}));
}

PagesCheckJs::PagesCheckJs(const Napi::CallbackInfo& info) : Napi::ObjectWrap<PagesCheckJs>(info) {}

void PagesCheckJs::feed(const Napi::CallbackInfo& info) {
  if (!info[0].IsBuffer()) throw Napi::TypeError::New(info.Env(), "chunk: not a Buffer");
  const auto chunk = info[0].As<Napi::Buffer<char>>();
  guarded(info.Env(), [&] {
    check_.feed({reinterpret_cast<const std::byte*>(chunk.Data()), chunk.Length()});
  });
}

Napi::Value PagesCheckJs::finish(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const PagesListing listing = check_.finish();
    Napi::Object object = summary_to_js(info.Env(), listing.summary);
    object.Set("process", listing.options.process);
    object.Set("gpu", listing.options.gpu);
    object.Set("buffers", to_number(info.Env(), listing.buffers.size()));
    return object;
  });
}

}  // namespace kfdcp::addon
