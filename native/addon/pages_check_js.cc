#include "addon/pages_check_js.h"

#include <fcntl.h>

#include <string>
#include <utility>

#include "addon/convert.h"
#include "addon/formats.h"
#include "addon/sibling_check_js.h"
#include "core/os/error.h"
#include "core/os/file_io.h"

namespace kfdcp::addon {

void PagesCheckJs::init(Napi::Env env, Napi::Object exports) {
  exports.Set("PagesCheck", DefineClass(env, "PagesCheck",
                                        {InstanceMethod<&PagesCheckJs::feed>("feed"),
                                         InstanceMethod<&PagesCheckJs::finish>("finish")}));
}

PagesCheckJs::PagesCheckJs(const Napi::CallbackInfo& info) : Napi::ObjectWrap<PagesCheckJs>(info) {
  check_.emplace(sink(info), links(info));
}

PagesStreamCheck::FrameSink PagesCheckJs::links(const Napi::CallbackInfo& info) {
  if (info[1].IsUndefined()) return {};
  siblings_ = SiblingCheckJs::shared(info[1], "siblings");
  return [this](const FrameEntry& frame) { links_.add(frame); };
}

PagesStreamCheck::IndexSink PagesCheckJs::sink(const Napi::CallbackInfo& info) {
  if (info[0].IsUndefined()) return {};
  const std::string path = to_string(info[0], "index");
  return guarded(info.Env(), [&]() -> PagesStreamCheck::IndexSink {
    index_ = UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!index_) throw io_error(path);
    return [this, path](std::uint64_t offset, std::span<const std::byte> bytes) {
      iovec part = write_part(bytes);
      write_exactly(index_.get(), {&part, 1}, offset, path.c_str());
    };
  });
}

void PagesCheckJs::feed(const Napi::CallbackInfo& info) {
  const std::span<const std::byte> chunk = to_bytes(info[0], "chunk");
  using_check(info.Env(), [&](PagesStreamCheck& check) { check.feed(chunk); });
}

Napi::Value PagesCheckJs::finish(const Napi::CallbackInfo& info) {
  return using_check(info.Env(), [&](PagesStreamCheck& check) {
    const PagesListing listing = check.finish();
    if (siblings_) siblings_->add(listing.options, std::move(links_));
    const Napi::Object object = listing_to_js(info.Env(), listing);
    release();
    return object;
  });
}

void PagesCheckJs::release() {
  check_.reset();
  links_ = {};
  siblings_ = nullptr;
  index_ = {};
}

}  // namespace kfdcp::addon
