#include "addon/image_facts.h"

#include <amdgpu_drm.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "addon/convert.h"
#include "core/kfd/state.h"

namespace kfdcp::addon {

namespace {

/// Mappings of a GPU's render node. An image of a process with one GPU need not name it in them.
std::uint32_t render_vmas(const ProcessState& state, std::uint32_t gpu_id) {
  const bool alone = state.devices.size() == 1;
  return static_cast<std::uint32_t>(std::ranges::count_if(state.vmas, [&](const VmaRecord& vma) {
    return vma.kind == VmaRecord::render && (vma.gpu_id == gpu_id || (alone && vma.gpu_id == 0));
  }));
}

/// Sizes are at most 2^50 in every file that was decoded: exact as doubles.
template <class Record>
Napi::Object columns(Napi::Env env, const std::vector<Record>& bos) {
  auto sizes = Napi::Float64Array::New(env, bos.size());
  auto kinds = Napi::Uint8Array::New(env, bos.size());
  for (std::size_t i = 0; i < bos.size(); ++i) {
    sizes[i] = static_cast<double>(bos[i].size);
    kinds[i] = static_cast<std::uint8_t>(kind_of(bos[i]));
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("sizes", sizes);
  object.Set("kinds", kinds);
  return object;
}

Napi::Value js_state_facts(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const ProcessState state = decode_state(to_bytes(info[0], "bytes"));
    Napi::Object object = Napi::Object::New(env);
    set_process(object, state);
    object.Set("bos", columns(env, state.bos));
    return object;
  });
}

Napi::Value js_render_state_facts(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const RenderState state = decode_render_state(to_bytes(info[0], "bytes"));
    Napi::Object object = Napi::Object::New(env);
    set_render_file(object, state);
    object.Set("bos", columns(env, state.bos));
    auto handles = Napi::Uint32Array::New(env, state.bos.size());
    for (std::size_t i = 0; i < state.bos.size(); ++i) handles[i] = state.bos[i].handle;
    object.Set("handles", handles);
    return object;
  });
}

template <void (*check)(std::span<const std::byte>, std::uint64_t)>
void js_check_head(const Napi::CallbackInfo& info) {
  const std::uint64_t bytes = to_uint64(info[1], "bytes");
  guarded(info.Env(), [&] { check(to_bytes(info[0], "head"), bytes); });
}

}  // namespace

void set_process(Napi::Object object, const ProcessState& state) {
  const Napi::Env env = object.Env();
  object.Set("ordinal", state.ordinal);
  object.Set("nsPid", state.ns_pid);
  object.Set("numObjects", state.num_objects);
  object.Set("privBytes", to_number(env, state.priv.size()));
  object.Set("vmas", to_number(env, state.vmas.size()));
  Napi::Array devices = Napi::Array::New(env, state.devices.size());
  for (std::uint32_t i = 0; i < state.devices.size(); ++i) {
    Napi::Object device = Napi::Object::New(env);
    device.Set("userGpuId", state.devices[i].user_gpu_id);
    device.Set("actualGpuId", state.devices[i].actual_gpu_id);
    device.Set("renderVmas", render_vmas(state, state.devices[i].user_gpu_id));
    devices[i] = device;
  }
  object.Set("devices", devices);
}

void set_render_file(Napi::Object object, const RenderState& state) {
  const Napi::Env env = object.Env();
  object.Set("ordinal", state.ordinal);
  object.Set("contexts", to_number(env, state.contexts.size()));
  object.Set("boLists", to_number(env, state.bo_lists.size()));
  object.Set("mappings", to_number(env, state.mappings.size()));
}

BoKind kind_of(const kfd_criu_bo_bucket& bo) {
  if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM) != 0) return BoKind::vram;
  if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT) != 0) return BoKind::gtt;
  if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) != 0) return BoKind::userptr;
  if ((bo.alloc_flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) != 0) return BoKind::doorbell;
  return BoKind::mmio;
}

BoKind kind_of(const GemBo& bo) {
  if (bo.original != kOwnBo) return BoKind::handle;
  return (bo.domains & AMDGPU_GEM_DOMAIN_VRAM) != 0 ? BoKind::vram : BoKind::gtt;
}

const char* name_of(BoKind kind) {
  static constexpr std::array names{"vram", "gtt", "userptr", "doorbell", "mmio", "handle"};
  return names[static_cast<std::size_t>(kind)];
}

void init_image_facts(Napi::Env env, Napi::Object exports) {
  exports.Set("stateFacts", Napi::Function::New(env, js_state_facts));
  exports.Set("checkStateHead", Napi::Function::New(env, js_check_head<check_state_head>));
  exports.Set("checkRenderStateHead",
              Napi::Function::New(env, js_check_head<check_render_state_head>));
  exports.Set("renderStateFacts", Napi::Function::New(env, js_render_state_facts));
}

}  // namespace kfdcp::addon
