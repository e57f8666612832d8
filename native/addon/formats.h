// State files, pages files and zstd streams for JS. Contents are hashed here. The only contents in
// JS values are the chunks of a stream.
#pragma once

#include <napi.h>

#include "core/pages/pages.h"

namespace kfdcp::addon {

/// {contentBytes, fileBytes, frames, zeroFrames, references, siblings, digests, root (hex), parent
/// (hex, where there is one)}
Napi::Object summary_to_js(Napi::Env env, const PagesSummary& summary);

/// As summary_to_js(), and process, gpu (ordinals), bufferIds (Uint32Array), bufferSizes
/// (Float64Array, bytes).
Napi::Object listing_to_js(Napi::Env env, const PagesListing& listing);

/// JS: stateSummary(bytes), stateForRestore(bytes, actualGpuIds): Descriptor, listPages(path),
/// PagesCheck, ZstdDecoder.
void init_formats(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
