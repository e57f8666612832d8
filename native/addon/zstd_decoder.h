// Node 20 cannot read zstd streams; libzstd, which the frames use anyway, can.
#pragma once

#include <napi.h>
#include <zstd.h>

#include <memory>

namespace kfdcp::addon {

/// JS: `new ZstdDecoder()`; `push(chunk, sink)` calls sink(Buffer) for each decoded piece of at
/// most 128 KiB; `end()` throws KFD_CORRUPT when the stream stops inside a frame.
class ZstdDecoder : public Napi::ObjectWrap<ZstdDecoder> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit ZstdDecoder(const Napi::CallbackInfo& info);

 private:
  void push(const Napi::CallbackInfo& info);
  void end(const Napi::CallbackInfo& info);

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  std::size_t expected_ = 0;  // 0: between two frames
};

}  // namespace kfdcp::addon
