#include "addon/stores_job.h"

#include <fcntl.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "addon/convert.h"
#include "addon/formats.h"
#include "addon/pages_parts.h"
#include "addon/promise_worker.h"
#include "core/pages/image_stores.h"
#include "core/pages/pages_sink.h"

namespace kfdcp::addon {

namespace {

struct Image {
  std::vector<Link> files;
  std::vector<Link> stores;
};

/// An image whose files are open. The Image outlives it.
struct OpenImage {
  explicit OpenImage(const Image& image) {
    std::vector<ChainFile> chain;
    for (const Link& link : image.files) {
      open.push_back(std::make_unique<OpenLink>(link));
      chain.emplace_back(&open.back()->reader, &open.back()->siblings);
    }
    std::vector<const PagesReader*> known;
    for (const Link& link : image.stores) {
      open.push_back(std::make_unique<OpenLink>(link));
      known.push_back(&open.back()->reader);
    }
    stores = std::make_unique<ImageStores>(std::move(chain), known);
  }
  std::vector<std::unique_ptr<OpenLink>> open;
  std::unique_ptr<ImageStores> stores;
};

struct Target {
  std::string path;
  std::uint32_t ordinal;
};

struct Order {
  std::vector<Target> targets;
  std::uint64_t begin;
  std::uint64_t bytes;
  std::vector<std::string> rewritten;
};

struct Written {
  std::vector<PagesListing> stores;
  std::vector<PagesListing> files;
};

struct Uses {
  std::uint64_t missing = 0;
  std::vector<StoreUse> uses;
};

Written write(const Image& image, const Order& order, const std::stop_token& stop) {
  const OpenImage opened(image);
  Written written;
  for (std::size_t i = 0; i < order.targets.size() && opened.stores->missing() > 0; ++i) {
    const auto& [path, ordinal] = order.targets[i];
    const bool is_last = i + 1 == order.targets.size();
    const std::uint64_t most = is_last ? std::numeric_limits<std::uint64_t>::max() : order.bytes;
    const UniqueFd fd = open_part(path, O_RDWR | O_CREAT | O_EXCL);
    auto made = opened.stores->write_store(file_sink(fd.get(), order.begin), ordinal, most, stop);
    if (made) written.stores.push_back(std::move(*made));
  }
  for (std::size_t i = 0; i < order.rewritten.size(); ++i) {
    const UniqueFd fd = open_part(order.rewritten[i], O_RDWR | O_CREAT | O_EXCL);
    written.files.push_back(opened.stores->write_file(i, fd.get()));
  }
  return written;
}

std::vector<Link> to_links(const Napi::Value& value, const char* what) {
  std::vector<Link> links;
  const auto list = value.As<Napi::Array>();
  for (std::uint32_t i = 0; i < list.Length(); ++i) {
    const Napi::Object object = to_object(list.Get(i), what);
    links.push_back(object.Has("siblings") ? to_link(object) : Link{to_part(object), {}});
  }
  return links;
}

Image to_image(const Napi::CallbackInfo& info) {
  return {to_links(info[0], "files"), to_links(info[1], "stores")};
}

Order to_order(const Napi::Object& object) {
  Order order{{},
              to_uint64(object.Get("begin"), "order.begin"),
              to_uint64(object.Get("bytes"), "order.bytes"),
              {}};
  const auto targets = object.Get("targets").As<Napi::Array>();
  for (std::uint32_t i = 0; i < targets.Length(); ++i) {
    const Napi::Object target = to_object(targets.Get(i), "order.targets");
    order.targets.push_back({to_string(target.Get("path"), "target.path"),
                             to_uint32(target.Get("ordinal"), "target.ordinal")});
  }
  const auto rewritten = object.Get("rewritten").As<Napi::Array>();
  for (std::uint32_t i = 0; i < rewritten.Length(); ++i) {
    order.rewritten.push_back(to_string(rewritten.Get(i), "order.rewritten"));
  }
  return order;
}

Napi::Value uses_to_js(Napi::Env env, const Uses& found) {
  Napi::Array uses = Napi::Array::New(env);
  for (std::uint32_t i = 0; i < found.uses.size(); ++i) {
    Napi::Object use = Napi::Object::New(env);
    use.Set("live", static_cast<double>(found.uses[i].live));
    use.Set("stored", static_cast<double>(found.uses[i].stored));
    uses.Set(i, use);
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("missing", static_cast<double>(found.missing));
  result.Set("uses", uses);
  return result;
}

Napi::Value written_to_js(Napi::Env env, const Written& written) {
  const auto listings = [env](const std::vector<PagesListing>& all) {
    Napi::Array list = Napi::Array::New(env);
    for (std::uint32_t i = 0; i < all.size(); ++i) list.Set(i, listing_to_js(env, all[i]));
    return list;
  };
  Napi::Object result = Napi::Object::New(env);
  result.Set("stores", listings(written.stores));
  result.Set("files", listings(written.files));
  return result;
}

Napi::Value js_store_uses(const Napi::CallbackInfo& info) {
  return PromiseWorker<Uses>::start_job(
      info.Env(),
      [image = to_image(info)](const std::stop_token&) {
        const OpenImage opened(image);
        return Uses{opened.stores->missing(), opened.stores->uses()};
      },
      uses_to_js);
}

Napi::Value js_write_stores(const Napi::CallbackInfo& info) {
  return PromiseWorker<Written>::start_job(
      info.Env(),
      [image = to_image(info), order = to_order(to_object(info[2], "order"))](
          const std::stop_token& stop) { return write(image, order, stop); },
      written_to_js);
}

}  // namespace

void init_stores(Napi::Env env, Napi::Object exports) {
  exports.Set("storeUses", Napi::Function::New(env, js_store_uses));
  exports.Set("writeStores", Napi::Function::New(env, js_write_stores));
}

}  // namespace kfdcp::addon
