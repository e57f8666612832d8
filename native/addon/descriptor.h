// A file descriptor as a JS object that closes it.
#pragma once

#include <napi.h>

#include "core/os/fd.h"

namespace kfdcp::addon {

/// JS: `class Descriptor { readonly fd: number; close(): void }`. Made by native code only.
/// The garbage collector closes what JS forgot.
class Descriptor : public Napi::ObjectWrap<Descriptor> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  static Napi::Object wrap(Napi::Env env, UniqueFd fd);
  /// The number inside; throws a JS TypeError when `value` is no Descriptor or is closed.
  static int number(const Napi::Value& value, const char* what);
  /// An own copy (F_DUPFD_CLOEXEC), for work on another thread.
  static UniqueFd copy(const Napi::Value& value, const char* what);

  explicit Descriptor(const Napi::CallbackInfo& info);

 private:
  Napi::Value fd(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  UniqueFd fd_;
};

}  // namespace kfdcp::addon
