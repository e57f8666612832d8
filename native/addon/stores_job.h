// The contents of an image in stores, in a thread of Node.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

/// JS: both take `files`, all pages files of an image, each with `siblings`, as flattenPages(), and
/// `stores`, pages files that hold contents alone, without `siblings`.
///
/// `storeUses(files, stores)`: a job whose `done` is {missing, uses}: stored bytes in no store, and
/// {live, stored} for each store.
///
/// `writeStores(files, stores, {targets, begin, bytes, rewritten})`: a job {done, cancel}. It
/// writes new stores to `targets`, {path, ordinal}[], from byte `begin` of each file on, `bytes`
/// stored bytes each; the last one gets all that is left. Targets without contents are not made.
/// Then it writes each of `files` anew, to the path in `rewritten`. `done`: {stores, files}, arrays
/// as by listPages().
void init_stores(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
