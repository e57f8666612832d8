// ImageFrames for JS.
#pragma once

#include <napi.h>

#include <memory>

#include "core/pages/image_frames.h"

namespace kfdcp::addon {

/// JS: `new ImageFrames()`, for all jobs that write pages files of one image: what one of them has
/// stored the others only refer to. Jobs that have it keep it.
class ImageFramesJs : public Napi::ObjectWrap<ImageFramesJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  /// Throws a JS TypeError, which names `what`, when `value` is none.
  static std::shared_ptr<ImageFrames> shared(const Napi::Value& value, const char* what);

  explicit ImageFramesJs(const Napi::CallbackInfo& info);

 private:
  std::shared_ptr<ImageFrames> frames_ = std::make_shared<ImageFrames>();
};

}  // namespace kfdcp::addon
