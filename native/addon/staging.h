// Claims on the host's staging memory.
#pragma once

#include <napi.h>

#include <memory>

#include "core/copy/staging_claim.h"

namespace kfdcp::addon {

/// JS: `new StagingClaim({file, total, wanted, transfers, session})`, as StagingClaim::Request;
/// `poll()` returns pieces, 0 while there are none; `close()` gives them back, as the garbage
/// collector does, and is the end of it.
class StagingClaim : public Napi::ObjectWrap<StagingClaim> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit StagingClaim(const Napi::CallbackInfo& info);

 private:
  Napi::Value poll(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  std::unique_ptr<kfdcp::StagingClaim> claim_;
};

}  // namespace kfdcp::addon
