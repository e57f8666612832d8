#include "addon/gem.h"

#include <fcntl.h>

#include <string>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "core/drm/buffer_name.h"
#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp::addon {

namespace {

/// A render file of its own is opened for it: no handle of anybody else is touched.
Napi::Value js_buffers_behind(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::string node = to_string(info[0], "renderNode");
  const auto dmabufs = info[1].As<Napi::Array>();
  return guarded(env, [&] {
    const UniqueFd render(::open(node.c_str(), O_RDWR | O_CLOEXEC));
    if (!render) throw io_error(node);
    Napi::Array names = Napi::Array::New(env, dmabufs.Length());
    for (std::uint32_t i = 0; i < dmabufs.Length(); ++i) {
      const int dmabuf = Descriptor::number(dmabufs.Get(i), "dmabufs");
      const drm::BufferName name = drm::buffer_behind(render.get(), dmabuf);
      Napi::Object object = Napi::Object::New(env);
      object.Set("size", to_number(env, name.bytes));
      if (name.mmap_offset != 0) object.Set("mmapOffset", to_bigint(env, name.mmap_offset));
      names[i] = object;
    }
    return names;
  });
}

}  // namespace

void init_gem(Napi::Env env, Napi::Object exports) {
  exports.Set("buffersBehind", Napi::Function::New(env, js_buffers_behind));
}

}  // namespace kfdcp::addon
