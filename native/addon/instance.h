// State of the addon per JS environment.
#pragma once

#include <napi.h>

namespace kfdcp::addon {

struct Instance {
  Napi::FunctionReference contents_sender;
  Napi::FunctionReference descriptor;
  Napi::FunctionReference image_frames;
  Napi::FunctionReference sibling_check;
};

}  // namespace kfdcp::addon
