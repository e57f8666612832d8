#include "addon/flatten_job.h"

#include <fcntl.h>

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "addon/convert.h"
#include "addon/formats.h"
#include "addon/image_frames_js.h"
#include "addon/pages_parts.h"
#include "addon/promise_worker.h"
#include "core/pages/pages_chain.h"

namespace kfdcp::addon {

namespace {

/// The new file, with the buffers of the first.
PagesListing flatten(const std::vector<Link>& links, const std::string& target, ImageFrames* frames,
                     std::stop_token stop) {
  std::vector<std::unique_ptr<OpenLink>> open;
  std::vector<ChainFile> chain;
  for (const Link& link : links) {
    open.push_back(std::make_unique<OpenLink>(link));
    chain.emplace_back(&open.back()->reader, &open.back()->siblings);
  }
  const UniqueFd fd = open_part(target, O_RDWR | O_CREAT | O_EXCL);
  const PagesReader& first = open.front()->reader;
  return {first.options(), flatten_pages(chain, fd.get(), stop, frames), first.buffers()};
}

Napi::Value js_flatten(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  std::vector<Link> links;
  const auto chain = info[0].As<Napi::Array>();
  for (std::uint32_t i = 0; i < chain.Length(); ++i) {
    links.push_back(to_link(to_object(chain.Get(i), "chain")));
  }
  auto frames = info[2].IsUndefined() ? nullptr : ImageFramesJs::shared(info[2], "frames");
  return PromiseWorker<PagesListing>::start_job(
      env,
      [links = std::move(links), target = to_string(info[1], "target"), frames = std::move(frames)](
          const std::stop_token& stop) { return flatten(links, target, frames.get(), stop); },
      listing_to_js);
}

}  // namespace

void init_flatten(Napi::Env env, Napi::Object exports) {
  exports.Set("flattenPages", Napi::Function::New(env, js_flatten));
}

}  // namespace kfdcp::addon
