// SiblingCheck for JS.
#pragma once

#include <napi.h>

#include <memory>

#include "core/pages/sibling_check.h"

namespace kfdcp::addon {

/// JS: `new SiblingCheck()`. Each pages file of an image is added by a PagesCheck, or by
/// `addFile(path)`, which reads its index and throws KFD_IO, KFD_CORRUPT or KFD_UNSUPPORTED.
/// `problems()`: {process, gpu, reason}[], empty when no reference is missing.
class SiblingCheckJs : public Napi::ObjectWrap<SiblingCheckJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  /// Throws a JS TypeError, which names `what`, when `value` is none.
  static std::shared_ptr<SiblingCheck> shared(const Napi::Value& value, const char* what);

  explicit SiblingCheckJs(const Napi::CallbackInfo& info);

 private:
  void add_file(const Napi::CallbackInfo& info);
  Napi::Value problems(const Napi::CallbackInfo& info);

  std::shared_ptr<SiblingCheck> check_ = std::make_shared<SiblingCheck>();
};

}  // namespace kfdcp::addon
