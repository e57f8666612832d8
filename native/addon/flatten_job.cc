#include "addon/flatten_job.h"

#include <fcntl.h>

#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "addon/convert.h"
#include "addon/formats.h"
#include "core/error.h"
#include "core/fd.h"
#include "core/pages_chain.h"

namespace kfdcp::addon {

namespace {

struct Part {
  std::string path;
  FileRange range;
};

UniqueFd open_at(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  if (!fd) throw io_error(path);
  return fd;
}

PagesSummary flatten(const std::vector<Part>& parts, const std::string& target,
                     std::stop_token stop) {
  std::vector<UniqueFd> files;
  std::vector<std::unique_ptr<PagesReader>> readers;
  std::vector<const PagesReader*> chain;
  for (const Part& part : parts) {
    files.push_back(open_at(part.path, O_RDONLY));
    readers.push_back(std::make_unique<PagesReader>(files.back().get(), part.range));
    chain.push_back(readers.back().get());
  }
  return flatten_pages(chain, open_at(target, O_RDWR | O_CREAT | O_EXCL).get(), stop);
}

/// Deletes itself when it is done.
class FlattenWorker : public Napi::AsyncWorker {
 public:
  FlattenWorker(Napi::Env env, std::vector<Part> parts, std::string target)
      : Napi::AsyncWorker(env, "kfd-flatten"),
        deferred_(Napi::Promise::Deferred::New(env)),
        parts_(std::move(parts)),
        target_(std::move(target)) {}

  Napi::Promise done() const { return deferred_.Promise(); }
  std::stop_source stop() const { return stop_; }

 private:
  void Execute() override {
    try {
      summary_ = flatten(parts_, target_, stop_.get_token());
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void OnOK() override {
    try {
      if (failure_) std::rethrow_exception(failure_);
      deferred_.Resolve(summary_to_js(Env(), summary_));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    } catch (const std::exception& error) {
      deferred_.Reject(to_js_error(Env(), error).Value());
    }
  }

  Napi::Promise::Deferred deferred_;
  std::vector<Part> parts_;
  std::string target_;
  std::stop_source stop_;
  PagesSummary summary_;
  std::exception_ptr failure_;
};

Napi::Value js_flatten(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  std::vector<Part> parts;
  const auto chain = info[0].As<Napi::Array>();
  for (std::uint32_t i = 0; i < chain.Length(); ++i) {
    const Napi::Object part = to_object(chain.Get(i), "chain");
    parts.push_back({to_string(part.Get("path"), "chain.path"),
                     {to_uint64(part.Get("offset"), "chain.offset"),
                      to_uint64(part.Get("size"), "chain.size")}});
  }
  auto* const worker = new FlattenWorker(env, std::move(parts), to_string(info[1], "target"));
  Napi::Object job = Napi::Object::New(env);
  job.Set("done", worker->done());
  job.Set("cancel",
          Napi::Function::New(env, [stop = worker->stop()](const Napi::CallbackInfo&) mutable {
            stop.request_stop();
          }));
  worker->Queue();
  return job;
}

}  // namespace

void init_flatten(Napi::Env env, Napi::Object exports) {
  exports.Set("flattenPages", Napi::Function::New(env, js_flatten));
}

}  // namespace kfdcp::addon
