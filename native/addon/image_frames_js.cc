#include "addon/image_frames_js.h"

#include <string>

#include "addon/instance.h"

namespace kfdcp::addon {

void ImageFramesJs::init(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(env, "ImageFrames", {});
  env.GetInstanceData<Instance>()->image_frames = Napi::Persistent(type);
  exports.Set("ImageFrames", type);
}

std::shared_ptr<ImageFrames> ImageFramesJs::shared(const Napi::Value& value, const char* what) {
  const Napi::FunctionReference& type = value.Env().GetInstanceData<Instance>()->image_frames;
  if (!value.IsObject() || !value.As<Napi::Object>().InstanceOf(type.Value())) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not an ImageFrames");
  }
  return Unwrap(value.As<Napi::Object>())->frames_;
}

ImageFramesJs::ImageFramesJs(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ImageFramesJs>(info) {}

}  // namespace kfdcp::addon
