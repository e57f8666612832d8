// Ending a chain of pages files, in a thread of Node.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

/// JS: `flattenPages(chain, target, frames?)` starts at once. `chain`: {path, offset, size,
/// siblings}[], the file, its parent, and so on; each may lie inside another file. `siblings`:
/// {process, gpu, path, offset, size}[], all pages files of the same image. `target`: path of the
/// new file. `frames`: the ImageFrames of the image that the new file is for. Returns {done,
/// cancel}: `done` is a promise of the same summary of the new file as by listPages(); `cancel()`
/// makes it reject with KFD_CANCELLED.
void init_flatten(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
