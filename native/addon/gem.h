// Facts about buffers that several processes share.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

void init_gem(Napi::Env env, Napi::Object exports);

}  // namespace kfdcp::addon
