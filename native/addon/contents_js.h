// Contents on their way to and from another host, for JS.
#pragma once

#include <napi.h>

#include <memory>

#include "core/pages/contents_stream.h"

namespace kfdcp::addon {

/// JS: `new ContentsSender(path)` opens a FIFO that somebody reads. Jobs that have it keep it open,
/// too.
class ContentsSenderJs : public Napi::ObjectWrap<ContentsSenderJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  /// Throws a JS TypeError, which names `what`, when `value` is none.
  static std::shared_ptr<ContentsSender> shared(const Napi::Value& value, const char* what);

  explicit ContentsSenderJs(const Napi::CallbackInfo& info);

 private:
  Napi::Value finish(const Napi::CallbackInfo& info);
  void stop(const Napi::CallbackInfo& info);
  Napi::Value bytes(const Napi::CallbackInfo& info);

  std::shared_ptr<ContentsSender> sender_;   // until its end is asked for
  std::weak_ptr<ContentsSender> finishing_;  // from then on
  std::uint64_t bytes_ = 0;                  // when it has gone
};

/// JS: receiveContents(descriptor number, folder, {files, bytes}): {done, progress, cancel},
/// sendFile(descriptor number): {pipe, end, bytes, done, cancel}, receiveFile(pipe, file, limit):
/// {done, cancel}.
void init_contents(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
