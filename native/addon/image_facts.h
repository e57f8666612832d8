// What image files say, in columns: typed arrays stay small where hostile files have a million
// records.
#pragma once

#include <linux/kfd_ioctl.h>
#include <napi.h>

#include <cstdint>

#include "core/drm/render_state.h"
#include "core/kfd/state.h"

namespace kfdcp::addon {

/// JS: stateFacts(bytes), renderStateFacts(bytes); checkStateHead(head, bytes) and
/// checkRenderStateHead(head, bytes) for the first 128 bytes of a file of so many.
void init_image_facts(Napi::Env env, Napi::Object exports);

/// Sets ordinal, nsPid, numObjects, privBytes, vmas and devices of `object`.
void set_process(Napi::Object object, const ProcessState& state);

/// Sets ordinal, contexts, boLists and mappings of `object`.
void set_render_file(Napi::Object object, const RenderState& state);

/// Kinds of BOs. src/addon/images.ts has their names in this order.
enum class BoKind : std::uint8_t { vram, gtt, userptr, doorbell, mmio, handle };
BoKind kind_of(const kfd_criu_bo_bucket& bo);
BoKind kind_of(const GemBo& bo);
const char* name_of(BoKind kind);

}  // namespace kfdcp::addon
