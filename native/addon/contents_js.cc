#include "addon/contents_js.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <string>
#include <utility>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/instance.h"
#include "addon/promise_worker.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/pages/file_stream.h"

namespace kfdcp::addon {
namespace {

/// Does not wait for a reader: ENXIO without one.
UniqueFd open_fifo(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) throw io_error(path);
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) throw io_error(path);
  if (!S_ISFIFO(st.st_mode)) throw Error(ErrorCode::protocol, path + ": not a FIFO");
  return fd;
}

Napi::Value receive(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const int fd = static_cast<int>(to_uint32(info[0], "descriptor"));
  const std::string folder = to_string(info[1], "folder");
  const Napi::Object most = to_object(info[2], "limits");
  const ReceiveLimits limits{.files = to_uint32(most.Get("files"), "limits.files"),
                             .bytes = to_uint64(most.Get("bytes"), "limits.bytes")};
  const auto progress = std::make_shared<std::atomic<std::uint64_t>>(0);
  Napi::Object job = PromiseWorker<ReceivedContents>::start_job(
      env,
      [=](const std::stop_token& stop) {
        const UniqueFd directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!directory) throw io_error(folder);
        return receive_contents(fd, directory.get(), limits, stop, *progress);
      },
      [](Napi::Env env, const ReceivedContents& result) {
        Napi::Object object = Napi::Object::New(env);
        object.Set("files", result.files);
        object.Set("bytes", to_number(env, result.bytes));
        return object;
      });
  job.Set("progress", Napi::Function::New(env, [progress](const Napi::CallbackInfo& call) {
            return to_number(call.Env(), progress->load());
          }));
  return job;
}

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Pipe new_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw io_error("pipe");
  return {.reader = UniqueFd(ends[0]), .writer = UniqueFd(ends[1])};
}

/// JS: sendFile(descriptor number): {pipe, end, bytes, done, cancel}.
Napi::Value send_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const int number = static_cast<int>(to_uint32(info[0], "descriptor"));
  UniqueFd reader;
  std::shared_ptr<FileSender> sender;
  guarded(env, [&] {
    UniqueFd file(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!file) throw io_error("file");
    Pipe pipe = new_pipe();
    reader = std::move(pipe.reader);
    sender = std::make_shared<FileSender>(std::move(file), std::move(pipe.writer));
  });
  Napi::Object job = PromiseWorker<std::uint64_t>::start_job(
      env, [sender](const std::stop_token& stop) { return sender->run(stop); },
      [](Napi::Env env, const std::uint64_t& bytes) { return to_number(env, bytes); });
  job.Set("pipe", Descriptor::wrap(env, std::move(reader)));
  job.Set("end", Napi::Function::New(env, [sender](const Napi::CallbackInfo&) { sender->end(); }));
  job.Set("bytes", Napi::Function::New(env, [sender](const Napi::CallbackInfo& call) {
            return to_number(call.Env(), sender->bytes());
          }));
  return job;
}

/// JS: receiveFile(pipe, file, limit): {done, cancel}; both are descriptor numbers.
Napi::Value receive_sent_file(const Napi::CallbackInfo& info) {
  const int pipe = static_cast<int>(to_uint32(info[0], "pipe"));
  const int file = static_cast<int>(to_uint32(info[1], "file"));
  const std::uint64_t limit = to_uint64(info[2], "limit");
  return PromiseWorker<std::uint64_t>::start_job(
      info.Env(),
      [=](const std::stop_token& stop) { return receive_file(pipe, file, limit, stop); },
      [](Napi::Env env, const std::uint64_t& bytes) { return to_number(env, bytes); });
}

/// JS: forwardFile(descriptor number, limit): {pipe, done, cancel}.
Napi::Value forward_sent_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const int number = static_cast<int>(to_uint32(info[0], "descriptor"));
  const std::uint64_t limit = to_uint64(info[1], "limit");
  const auto pipe = std::make_shared<Pipe>();
  guarded(env, [&] { *pipe = new_pipe(); });
  UniqueFd reader = std::move(pipe->reader);
  Napi::Object job = PromiseWorker<std::uint64_t>::start_job(
      env,
      [=](const std::stop_token& stop) {
        return forward_file(number, std::move(pipe->writer), limit, stop);
      },
      [](Napi::Env env, const std::uint64_t& bytes) { return to_number(env, bytes); });
  job.Set("pipe", Descriptor::wrap(env, std::move(reader)));
  return job;
}

}  // namespace

void ContentsSenderJs::init(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(env, "ContentsSender",
                                          {InstanceMethod<&ContentsSenderJs::finish>("finish"),
                                           InstanceMethod<&ContentsSenderJs::stop>("stop"),
                                           InstanceMethod<&ContentsSenderJs::bytes>("bytes")});
  env.GetInstanceData<Instance>()->contents_sender = Napi::Persistent(type);
  exports.Set("ContentsSender", type);
}

std::shared_ptr<ContentsSender> ContentsSenderJs::shared(const Napi::Value& value,
                                                         const char* what) {
  const Napi::FunctionReference& type = value.Env().GetInstanceData<Instance>()->contents_sender;
  const auto& sender = Unwrap(to_instance(value, type, what, "a ContentsSender"))->sender_;
  if (sender) return sender;
  throw Napi::TypeError::New(value.Env(), std::string(what) + ": has ended");
}

ContentsSenderJs::ContentsSenderJs(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<ContentsSenderJs>(info) {
  const std::string path = to_string(info[0], "path");
  guarded(info.Env(), [&] { sender_ = std::make_shared<ContentsSender>(open_fifo(path)); });
}

/// The FIFO is closed when this is done: the reader waits for that.
Napi::Value ContentsSenderJs::finish(const Napi::CallbackInfo& info) {
  auto sender = std::exchange(sender_, nullptr);
  if (!sender) throw Napi::TypeError::New(info.Env(), "finish: has ended");
  bytes_ = sender->bytes();
  finishing_ = sender;
  return PromiseWorker<bool>::start(
      info.Env(),
      [sender = std::move(sender)](const std::stop_token&) mutable {
        const auto last = std::exchange(sender, nullptr);
        last->finish();
        return true;
      },
      [](Napi::Env env, const bool&) { return env.Undefined(); });
}

void ContentsSenderJs::stop(const Napi::CallbackInfo&) {
  if (const auto sender = sender_ ? sender_ : finishing_.lock()) {
    sender->stop();
    bytes_ = sender->bytes();
  }
  sender_.reset();
}

Napi::Value ContentsSenderJs::bytes(const Napi::CallbackInfo& info) {
  return to_number(info.Env(), sender_ ? sender_->bytes() : bytes_);
}

void init_contents(Napi::Env env, Napi::Object exports) {
  ContentsSenderJs::init(env, exports);
  exports.Set("receiveContents", Napi::Function::New(env, receive, "receiveContents"));
  exports.Set("sendFile", Napi::Function::New(env, send_file, "sendFile"));
  exports.Set("receiveFile", Napi::Function::New(env, receive_sent_file, "receiveFile"));
  exports.Set("forwardFile", Napi::Function::New(env, forward_sent_file, "forwardFile"));
}

}  // namespace kfdcp::addon
