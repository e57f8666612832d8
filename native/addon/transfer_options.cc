#include "addon/transfer_options.h"

#include "addon/contents_js.h"
#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/image_frames_js.h"

namespace kfdcp::addon {

namespace {

Compress to_compress(const Napi::Value& value) {
  const std::string name = to_string(value, "compress");
  if (name == "none") return Compress::none;
  if (name == "auto") return Compress::automatic;
  if (name == "lz4") return Compress::lz4;
  if (name == "zstd") return Compress::zstd;
  throw Napi::TypeError::New(value.Env(), "compress: not one of none, auto, lz4, zstd");
}

Operation to_operation(const Napi::Value& value) {
  const std::string name = to_string(value, "operation");
  if (name == "drain") return Operation::drain;
  if (name == "upload") return Operation::upload;
  if (name == "snapshot") return Operation::snapshot;
  throw Napi::TypeError::New(value.Env(), "operation: not one of drain, upload, snapshot");
}

std::string to_engine(const Napi::Value& value) {
  const std::string name = to_string(value, "engine");
  if (name == "sdma" || name == "cpu") return name;
  throw Napi::TypeError::New(value.Env(), "engine: not one of sdma, cpu");
}

}  // namespace

TransferJobOptions read_transfer_options(const Napi::Value& value) {
  const Napi::Object object = to_object(value, "options");
  TransferJobOptions options;
  options.operation = to_operation(object.Get("operation"));
  options.render_node = to_string(object.Get("renderNode"), "renderNode");
  options.engine = to_engine(object.Get("engine"));
  options.ring.slots = to_uint32(object.Get("slots"), "slots");
  options.ring.slot_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
  options.transfer.workers = to_uint32(object.Get("workers"), "workers");
  if (options.operation == Operation::snapshot) {
    options.host_bytes = to_uint64(object.Get("hostBytes"), "hostBytes");
  } else {
    options.path = to_string(object.Get("path"), "path");
  }
  if (options.operation == Operation::drain) {
    options.pages.compress = to_compress(object.Get("compress"));
    options.pages.zstd_level = static_cast<int>(to_uint32(object.Get("zstdLevel"), "zstdLevel"));
    options.pages.frame_bytes = to_uint32(object.Get("slotBytes"), "slotBytes");
    options.pages.share = true;
    const Napi::Value parent = object.Get("parent");
    if (!parent.IsUndefined()) options.parent = to_string(parent, "parent");
    const Napi::Value frames = object.Get("frames");
    if (!frames.IsUndefined()) options.frames = ImageFramesJs::shared(frames, "frames");
    options.pages.process = to_uint32(object.Get("process"), "process");
    options.pages.gpu = to_uint32(object.Get("gpu"), "gpu");
    const Napi::Value stream = object.Get("stream");
    if (!stream.IsUndefined()) options.stream = ContentsSenderJs::shared(stream, "stream");
  }
  const Napi::Value parents = object.Get("parents");
  if (!parents.IsUndefined()) options.parents = to_strings(parents, "parents");
  const auto buffers = object.Get("buffers").As<Napi::Array>();
  for (std::uint32_t i = 0; i < buffers.Length(); ++i) {
    const Napi::Object buffer = to_object(buffers.Get(i), "buffers");
    ContentBuffer& content = options.buffers.emplace_back(ContentBuffer{
        to_uint32(buffer.Get("id"), "buffers.id"), to_uint64(buffer.Get("size"), "buffers.size"),
        Descriptor::copy(buffer.Get("dmabuf"), "buffers.dmabuf")});
    const Napi::Value offset = buffer.Get("offset");
    if (!offset.IsUndefined()) content.offset = to_uint64(offset, "buffers.offset");
  }
  return options;
}

}  // namespace kfdcp::addon
