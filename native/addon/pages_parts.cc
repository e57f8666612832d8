#include "addon/pages_parts.h"

#include <fcntl.h>

#include <utility>

#include "addon/convert.h"
#include "core/os/error.h"
#include "core/wire/image_files.h"

namespace kfdcp::addon {

namespace {

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

}  // namespace

UniqueFd open_part(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

SiblingFiles::File Link::open(std::uint32_t process, std::uint32_t gpu) const {
  const auto found = siblings.find({process, gpu});
  if (found == siblings.end()) {
    throw Error(ErrorCode::corrupt,
                pages_file_name(process, gpu) + ": is missing, but another file refers to it");
  }
  const Part& part = found->second;
  return {open_part(part.path, O_RDONLY), part.range, part.root};
}

OpenLink::OpenLink(const Link& link)
    : fd(open_part(link.file.path, O_RDONLY)),
      reader(fd.get(), link.file.range),
      siblings(
          [&link](std::uint32_t process, std::uint32_t gpu) { return link.open(process, gpu); }) {
  reader.expect(link.file.process, link.file.gpu, link.file.root);
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

}  // namespace kfdcp::addon
