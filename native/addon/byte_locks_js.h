// Locks on bytes of a file.
#pragma once

#include <napi.h>

#include <memory>

#include "core/os/byte_locks.h"

namespace kfdcp::addon {

/// JS: `new ByteLocks(path)`; `take(places)` returns whether it has locked all of them;
/// `close()` gives everything back, as the garbage collector does, and is the end of it.
class ByteLocksJs : public Napi::ObjectWrap<ByteLocksJs> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit ByteLocksJs(const Napi::CallbackInfo& info);

 private:
  Napi::Value take(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::unique_ptr<ByteLocks> locks_;
};

}  // namespace kfdcp::addon
