#include "addon/image_frames_js.h"

#include "addon/convert.h"
#include "addon/instance.h"

namespace kfdcp::addon {

void ImageFramesJs::init(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(env, "ImageFrames", {});
  env.GetInstanceData<Instance>()->image_frames = Napi::Persistent(type);
  exports.Set("ImageFrames", type);
}

std::shared_ptr<ImageFrames> ImageFramesJs::shared(const Napi::Value& value, const char* what) {
  const Napi::FunctionReference& type = value.Env().GetInstanceData<Instance>()->image_frames;
  return Unwrap(to_instance(value, type, what, "an ImageFrames"))->frames_;
}

ImageFramesJs::ImageFramesJs(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ImageFramesJs>(info) {}

}  // namespace kfdcp::addon
