// What the addon keeps per JS environment.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

struct Instance {
  Napi::FunctionReference descriptor;
};

}  // namespace kfdcp::addon
