// PagesStreamCheck for JS.
#pragma once

#include <napi.h>

#include <memory>

#include "core/os/fd.h"
#include "core/pages/pages_check.h"
#include "core/pages/sibling_check.h"

namespace kfdcp::addon {

/// JS: `new PagesCheck(index?, siblings?)`; `feed(chunk)` throws KFD_CORRUPT or KFD_UNSUPPORTED as
/// soon as the bytes show it; `finish()` returns {process, gpu, buffers, contentBytes, ..., root}.
/// `index`: path of a new file that gets everything but the frames; a drain finds frames of its
/// parent by it. `siblings`: a SiblingCheck, to which finish() adds the frames and references of
/// the file.
class PagesCheckJs : public Napi::ObjectWrap<PagesCheckJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit PagesCheckJs(const Napi::CallbackInfo& info);

 private:
  void feed(const Napi::CallbackInfo& info);
  Napi::Value finish(const Napi::CallbackInfo& info);

  PagesStreamCheck::FrameSink links(const Napi::CallbackInfo& info);
  PagesStreamCheck::IndexSink sink(const Napi::CallbackInfo& info);

  UniqueFd index_;
  std::shared_ptr<SiblingCheck> siblings_;
  SiblingLinks links_;
  PagesStreamCheck check_;
};

}  // namespace kfdcp::addon
