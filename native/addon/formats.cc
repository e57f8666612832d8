#include "addon/formats.h"

#include <fcntl.h>
#include <linux/kfd_ioctl.h>

#include <algorithm>
#include <memory>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/image_facts.h"
#include "addon/pages_check_js.h"
#include "addon/zstd_decoder.h"
#include "core/drm/render_state.h"
#include "core/kfd/blob_bos.h"
#include "core/kfd/kfd.h"
#include "core/kfd/state.h"
#include "core/pages/chain_files.h"
#include "core/wire/wire.h"

namespace kfdcp::addon {

namespace {

/// Others have no memory of their own, and an offset of another kind (doorbells) or none of use.
bool has_memory(const kfd_criu_bo_bucket& bo) {
  return (bo.alloc_flags & (KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_GTT)) != 0;
}

Napi::Value js_state_summary(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const ProcessState state = decode_state(to_bytes(info[0], "bytes"));
    Napi::Object object = Napi::Object::New(env);
    set_process(object, state);
    Napi::Array bos = Napi::Array::New(env, state.bos.size());
    for (std::uint32_t i = 0; i < state.bos.size(); ++i) {
      Napi::Object bo = Napi::Object::New(env);
      bo.Set("gpuId", state.bos[i].gpu_id);
      bo.Set("size", to_number(env, state.bos[i].size));
      bo.Set("kind", name_of(kind_of(state.bos[i])));
      bo.Set("allocFlags", state.bos[i].alloc_flags);
      if (has_memory(state.bos[i])) bo.Set("mmapOffset", to_bigint(env, state.bos[i].offset));
      bos[i] = bo;
    }
    object.Set("bos", bos);
    return object;
  });
}

void js_check_private_data(const Napi::CallbackInfo& info) {
  guarded(info.Env(), [&] { blob_bos(decode_state(to_bytes(info[0], "bytes"))); });
}

Napi::Value js_render_state_summary(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const RenderState state = decode_render_state(to_bytes(info[0], "bytes"));
    Napi::Object object = Napi::Object::New(env);
    set_render_file(object, state);
    Napi::Array bos = Napi::Array::New(env, state.bos.size());
    for (std::uint32_t i = 0; i < state.bos.size(); ++i) {
      Napi::Object bo = Napi::Object::New(env);
      bo.Set("handle", state.bos[i].handle);
      bo.Set("size", to_number(env, state.bos[i].size));
      bo.Set("kind", name_of(kind_of(state.bos[i])));
      const std::uint64_t offset = state.bos[i].mmap_offset;
      if (offset != 0) bo.Set("mmapOffset", to_bigint(env, offset));
      bos[i] = bo;
    }
    object.Set("bos", bos);
    return object;
  });
}

/// With BOs named as ones that exist already: buffers of other processes.
Napi::Value js_render_state_for_restore(const Napi::CallbackInfo& info) {
  const std::uint32_t first = to_uint32(info[1], "firstBo");
  const auto shared = info[2].As<Napi::Array>();
  return guarded(info.Env(), [&] {
    RenderState state = decode_render_state(to_bytes(info[0], "bytes"));
    for (std::uint32_t i = 0; i < shared.Length(); ++i) {
      const std::uint32_t position = to_uint32(shared.Get(i), "shared");
      state.bos.at(position).original = first + position;
    }
    const std::vector<std::byte> bytes = encode_render_state(state);
    return Descriptor::wrap(info.Env(), make_memfd("render-state", bytes.data(), bytes.size()));
  });
}

Napi::Value js_memfd(const Napi::CallbackInfo& info) {
  return guarded(info.Env(), [&] {
    const auto bytes = to_bytes(info[0], "bytes");
    return Descriptor::wrap(info.Env(), make_memfd("state", bytes.data(), bytes.size()));
  });
}
/// The size for RESTORE of a BO whose memory will be exchanged for memory of another process.
constexpr std::uint64_t kPlaceholderBytes = 4096;

/// The recorded state with the GPUs of this host filled in, ready for RESTORE.
Napi::Value js_state_for_restore(const Napi::CallbackInfo& info) {
  const auto ids = info[1].As<Napi::Array>();
  const auto shared = info[2].As<Napi::Array>();
  return guarded(info.Env(), [&] {
    ProcessState state = decode_state(to_bytes(info[0], "bytes"));
    if (ids.Length() != state.devices.size()) {
      throw Error(ErrorCode::unsupported, "KFD state: one GPU id per recorded GPU is needed");
    }
    for (std::uint32_t i = 0; i < ids.Length(); ++i) {
      state.devices[i].actual_gpu_id = to_uint32(ids.Get(i), "gpuIds");
    }
    for (std::uint32_t i = 0; i < shared.Length(); ++i) {
      state.bos.at(to_uint32(shared.Get(i), "shared")).size = kPlaceholderBytes;
    }
    const std::vector<std::byte> bytes = encode_state(state);
    return Descriptor::wrap(info.Env(), make_memfd("kfd-state", bytes.data(), bytes.size()));
  });
}

Napi::Value js_list_pages(const Napi::CallbackInfo& info) {
  const std::string path = to_string(info[0], "path");
  return guarded(info.Env(), [&] {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) throw io_error(path);
    return listing_to_js(info.Env(), list_pages(file.get()));
  });
}

Napi::Value js_check_chain(const Napi::CallbackInfo& info) {
  const std::vector<std::string> paths = to_strings(info[0], "paths");
  return guarded(info.Env(), [&] {
    ChainFiles(paths).chain().check();
    return info.Env().Undefined();
  });
}

}  // namespace

Napi::Object summary_to_js(Napi::Env env, const PagesSummary& summary) {
  static constexpr char digits[] = "0123456789abcdef";
  const auto hex = [](const std::array<std::uint8_t, 16>& digest) {
    std::string text;
    for (const std::uint8_t byte : digest) {
      text += digits[byte >> 4];
      text += digits[byte & 15];
    }
    return text;
  };
  Napi::Object object = Napi::Object::New(env);
  object.Set("contentBytes", to_number(env, summary.content_bytes));
  object.Set("fileBytes", to_number(env, summary.file_bytes));
  object.Set("frames", to_number(env, summary.frames));
  object.Set("zeroFrames", to_number(env, summary.zero_frames));
  object.Set("references", to_number(env, summary.references));
  object.Set("siblings", to_number(env, summary.siblings));
  object.Set("digests", summary.digests);
  object.Set("root", hex(summary.root));
  if (summary.parent != decltype(summary.parent){}) object.Set("parent", hex(summary.parent));
  return object;
}

Napi::Object listing_to_js(Napi::Env env, const PagesListing& listing) {
  Napi::Object object = summary_to_js(env, listing.summary);
  object.Set("process", listing.options.process);
  object.Set("gpu", listing.options.gpu);
  auto ids = Napi::Uint32Array::New(env, listing.buffers.size());
  auto sizes = Napi::Float64Array::New(env, listing.buffers.size());
  for (std::size_t i = 0; i < listing.buffers.size(); ++i) {
    ids[i] = listing.buffers[i].id;
    sizes[i] = static_cast<double>(listing.buffers[i].size);
  }
  object.Set("bufferIds", ids);
  object.Set("bufferSizes", sizes);
  return object;
}

void init_formats(Napi::Env env, Napi::Object exports) {
  exports.Set("stateSummary", Napi::Function::New(env, js_state_summary));
  exports.Set("checkPrivateData", Napi::Function::New(env, js_check_private_data));
  exports.Set("renderStateSummary", Napi::Function::New(env, js_render_state_summary));
  exports.Set("renderStateForRestore", Napi::Function::New(env, js_render_state_for_restore));
  exports.Set("memfd", Napi::Function::New(env, js_memfd));
  exports.Set("stateForRestore", Napi::Function::New(env, js_state_for_restore));
  exports.Set("listPages", Napi::Function::New(env, js_list_pages));
  exports.Set("checkChain", Napi::Function::New(env, js_check_chain));
  init_image_facts(env, exports);
  PagesCheckJs::init(env, exports);
  ZstdDecoder::init(env, exports);
}

}  // namespace kfdcp::addon
