#include "addon/flatten_job.h"

#include <fcntl.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "addon/convert.h"
#include "addon/formats.h"
#include "addon/image_frames_js.h"
#include "addon/promise_worker.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/pages/pages_chain.h"
#include "core/pages/sibling_files.h"
#include "core/wire/image_files.h"

namespace kfdcp::addon {

namespace {

/// A pages file as a manifest names it.
struct Part {
  std::string path;
  FileRange range;
  std::uint32_t process;
  std::uint32_t gpu;
  std::array<std::uint8_t, 16> root;
};

UniqueFd open_at(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

/// A file of the chain, and the pages files of its image, by their ordinals.
struct Link {
  Part file;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Part> siblings;

  SiblingFiles::File open(std::uint32_t process, std::uint32_t gpu) const {
    const auto found = siblings.find({process, gpu});
    if (found == siblings.end()) {
      throw Error(ErrorCode::corrupt,
                  pages_file_name(process, gpu) + ": is missing, but another file refers to it");
    }
    const Part& part = found->second;
    return {open_at(part.path, O_RDONLY), part.range, part.root};
  }
};

/// A file of the chain that is open.
struct OpenLink {
  explicit OpenLink(const Link& link)
      : fd(open_at(link.file.path, O_RDONLY)),
        reader(fd.get(), link.file.range),
        siblings(
            [&link](std::uint32_t process, std::uint32_t gpu) { return link.open(process, gpu); }) {
    reader.expect(link.file.process, link.file.gpu, link.file.root);
  }
  UniqueFd fd;
  PagesReader reader;
  SiblingFiles siblings;
};

/// The new file, with the buffers of the first.
PagesListing flatten(const std::vector<Link>& links, const std::string& target, ImageFrames* frames,
                     std::stop_token stop) {
  std::vector<std::unique_ptr<OpenLink>> open;
  std::vector<ChainFile> chain;
  for (const Link& link : links) {
    open.push_back(std::make_unique<OpenLink>(link));
    chain.emplace_back(&open.back()->reader, &open.back()->siblings);
  }
  const UniqueFd fd = open_at(target, O_RDWR | O_CREAT | O_EXCL);
  const PagesReader& first = open.front()->reader;
  return {first.options(), flatten_pages(chain, fd.get(), stop, frames), first.buffers()};
}

std::array<std::uint8_t, 16> to_root(const Napi::Value& value) {
  const std::string hex = to_string(value, "chain.root");
  std::array<std::uint8_t, 16> root;
  const bool is_hex = hex.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (hex.size() != 2 * root.size() || !is_hex) {
    throw Napi::TypeError::New(value.Env(), "chain.root: not 32 hex digits");
  }
  for (std::size_t i = 0; i < root.size(); ++i) {
    root[i] = static_cast<std::uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return root;
}

Part to_part(const Napi::Object& object) {
  return {to_string(object.Get("path"), "chain.path"),
          {to_uint64(object.Get("offset"), "chain.offset"),
           to_uint64(object.Get("size"), "chain.size")},
          to_uint32(object.Get("process"), "chain.process"),
          to_uint32(object.Get("gpu"), "chain.gpu"),
          to_root(object.Get("root"))};
}

Link to_link(const Napi::Object& object) {
  Link link{to_part(object), {}};
  const auto siblings = object.Get("siblings").As<Napi::Array>();
  for (std::uint32_t i = 0; i < siblings.Length(); ++i) {
    Part sibling = to_part(to_object(siblings.Get(i), "siblings"));
    link.siblings.insert_or_assign({sibling.process, sibling.gpu}, std::move(sibling));
  }
  return link;
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
