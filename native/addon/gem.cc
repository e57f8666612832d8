#include "addon/gem.h"

#include <fcntl.h>

#include <string>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "core/drm/gem.h"
#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp::addon {

namespace {

/// A render file of its own is opened for it: the offset belongs to the buffer and its GPU, and
/// no handle of anybody else is touched.
Napi::Value js_gem_mmap_offset(const Napi::CallbackInfo& info) {
  const std::string node = info[0].As<Napi::String>();
  const int dmabuf = Descriptor::number(info[1], "dmabuf");
  return guarded(info.Env(), [&] {
    const UniqueFd render(::open(node.c_str(), O_RDWR | O_CLOEXEC));
    if (!render) throw io_error(node);
    const std::uint32_t handle = drm::import_dmabuf(render.get(), dmabuf);
    return to_number(info.Env(), drm::mmap_offset(render.get(), handle));
  });
}

}  // namespace

void init_gem(Napi::Env env, Napi::Object exports) {
  exports.Set("gemMmapOffset", Napi::Function::New(env, js_gem_mmap_offset));
}

}  // namespace kfdcp::addon
