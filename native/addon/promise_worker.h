// Work in a thread of Node whose result is a promise.
#pragma once

#include <napi.h>

#include <exception>
#include <functional>
#include <stop_token>
#include <utility>

#include "addon/convert.h"

namespace kfdcp::addon {

/// Runs `work` in a thread of Node and resolves with what `convert` makes of its result. Rejects
/// with what either throws. Deletes itself when it is done.
template <class Result>
class PromiseWorker : public Napi::AsyncWorker {
 public:
  using Work = std::function<Result(const std::stop_token&)>;
  using Convert = std::function<Napi::Value(Napi::Env, const Result&)>;

  /// JS: a promise.
  static Napi::Promise start(Napi::Env env, Work work, Convert convert) {
    return (new PromiseWorker(env, std::move(work), std::move(convert)))->queued();
  }

  /// JS: {done, cancel}. `cancel()` requests the stop that `work` sees.
  static Napi::Object start_job(Napi::Env env, Work work, Convert convert) {
    auto* const worker = new PromiseWorker(env, std::move(work), std::move(convert));
    Napi::Object job = Napi::Object::New(env);
    job.Set("cancel",
            Napi::Function::New(env, [stop = worker->stop_](const Napi::CallbackInfo&) mutable {
              stop.request_stop();
            }));
    job.Set("done", worker->queued());
    return job;
  }

 private:
  PromiseWorker(Napi::Env env, Work work, Convert convert)
      : Napi::AsyncWorker(env, "kfd-checkpoint"),
        deferred_(Napi::Promise::Deferred::New(env)),
        work_(std::move(work)),
        convert_(std::move(convert)) {}

  Napi::Promise queued() {
    const Napi::Promise done = deferred_.Promise();
    Queue();
    return done;
  }

  void Execute() override {
    try {
      result_ = work_(stop_.get_token());
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void OnOK() override {
    try {
      if (failure_) std::rethrow_exception(failure_);
      deferred_.Resolve(convert_(Env(), result_));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    } catch (const std::exception& error) {
      deferred_.Reject(to_js_error(Env(), error).Value());
    }
  }

  Napi::Promise::Deferred deferred_;
  Work work_;
  Convert convert_;
  std::stop_source stop_;
  Result result_{};
  std::exception_ptr failure_;
};

}  // namespace kfdcp::addon
