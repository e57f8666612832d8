// kfd_checkpoint.node: a thin layer over native/core. Only src/native.ts loads it.
#include <napi.h>

#include "addon/byte_locks_js.h"
#include "addon/contents_js.h"
#include "addon/descriptor.h"
#include "addon/flatten_job.h"
#include "addon/formats.h"
#include "addon/gem.h"
#include "addon/image_frames_js.h"
#include "addon/instance.h"
#include "addon/listener.h"
#include "addon/process.h"
#include "addon/sibling_check_js.h"
#include "addon/staging.h"
#include "addon/stores_job.h"
#include "addon/transfer_job.h"
#include "addon/trials.h"

namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  using namespace kfdcp::addon;
  env.SetInstanceData(new Instance);  // freed by the environment
  Descriptor::init(env, exports);
  Listener::init(env, exports);
  StagingClaim::init(env, exports);
  ByteLocksJs::init(env, exports);
  ImageFramesJs::init(env, exports);
  SiblingCheckJs::init(env, exports);
  TransferJob::init(env, exports);
  init_process(env, exports);
  init_formats(env, exports);
  init_flatten(env, exports);
  init_stores(env, exports);
  init_contents(env, exports);
  init_trials(env, exports);
  init_gem(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(kfd_checkpoint, init)
