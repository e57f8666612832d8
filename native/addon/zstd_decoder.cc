#include "addon/zstd_decoder.h"

#include <vector>

#include "addon/convert.h"

namespace kfdcp::addon {

void ZstdDecoder::init(Napi::Env env, Napi::Object exports) {
  exports.Set("ZstdDecoder", DefineClass(env, "ZstdDecoder",
                                         {InstanceMethod<&ZstdDecoder::push>("push"),
                                          InstanceMethod<&ZstdDecoder::end>("end")}));
}

ZstdDecoder::ZstdDecoder(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ZstdDecoder>(info), context_(ZSTD_createDCtx()) {
  if (!context_) throw Napi::Error::New(info.Env(), "zstd: no memory");
  // A hostile archive must not get a window of gigabytes.
  ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 27);
}

void ZstdDecoder::push(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto chunk = info[0].As<Napi::Buffer<char>>();
  const auto sink = info[1].As<Napi::Function>();
  ZSTD_inBuffer input{chunk.Data(), chunk.Length(), 0};
  std::vector<char> piece(ZSTD_DStreamOutSize());
  for (bool full = false; full || input.pos < input.size;) {
    ZSTD_outBuffer output{piece.data(), piece.size(), 0};
    expected_ = ZSTD_decompressStream(context_.get(), &output, &input);
    if (ZSTD_isError(expected_)) {
      throw to_js_error(env, Error(ErrorCode::corrupt,
                                   std::string("zstd stream: ") + ZSTD_getErrorName(expected_)));
    }
    full = output.pos == output.size;
    if (output.pos > 0) sink.Call({Napi::Buffer<char>::Copy(env, piece.data(), output.pos)});
  }
}

void ZstdDecoder::end(const Napi::CallbackInfo& info) {
  if (expected_ == 0) return;
  throw to_js_error(info.Env(), Error(ErrorCode::corrupt, "zstd stream: ends inside a frame"));
}

}  // namespace kfdcp::addon
