// PagesStreamCheck for JS.
#pragma once

#include <napi.h>

#include <memory>
#include <optional>
#include <utility>

#include "addon/convert.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/pages/pages_check.h"
#include "core/pages/sibling_check.h"

namespace kfdcp::addon {

/// JS: `new PagesCheck(index?, siblings?)`; `feed(chunk)` throws KFD_CORRUPT or KFD_UNSUPPORTED as
/// soon as the bytes show it; `finish()` returns {process, gpu, bufferIds, contentBytes, ...,
/// root}. After an error and after finish() it holds no memory or descriptor, and takes no more
/// calls. `index`: path of a new file that gets everything but the frames; a drain finds frames of
/// its parent by it. `siblings`: a SiblingCheck, to which finish() adds the frames and references
/// of the file.
class PagesCheckJs : public Napi::ObjectWrap<PagesCheckJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit PagesCheckJs(const Napi::CallbackInfo& info);

 private:
  void feed(const Napi::CallbackInfo& info);
  Napi::Value finish(const Napi::CallbackInfo& info);

  /// Runs `body` with the check. An error of it ends the check. Throws KFD_PROTOCOL after that.
  template <class F>
  auto using_check(Napi::Env env, F&& body) -> decltype(body(std::declval<PagesStreamCheck&>())) {
    return guarded(env, [&] {
      if (!check_) throw Error(ErrorCode::protocol, "pages file: the check has ended");
      try {
        return body(*check_);
      } catch (...) {
        release();
        throw;
      }
    });
  }
  /// Garbage collection is late, and there may be thousands of these.
  void release();

  PagesStreamCheck::FrameSink links(const Napi::CallbackInfo& info);
  PagesStreamCheck::IndexSink sink(const Napi::CallbackInfo& info);

  UniqueFd index_;
  std::shared_ptr<SiblingCheck> siblings_;
  SiblingLinks links_;
  std::optional<PagesStreamCheck> check_;
};

}  // namespace kfdcp::addon
