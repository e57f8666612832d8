#include "addon/sibling_check_js.h"

#include <fcntl.h>

#include <string>
#include <vector>

#include "addon/convert.h"
#include "addon/instance.h"
#include "core/os/fd.h"

namespace kfdcp::addon {

void SiblingCheckJs::init(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(env, "SiblingCheck",
                                          {InstanceMethod<&SiblingCheckJs::add_file>("addFile"),
                                           InstanceMethod<&SiblingCheckJs::problems>("problems")});
  env.GetInstanceData<Instance>()->sibling_check = Napi::Persistent(type);
  exports.Set("SiblingCheck", type);
}

std::shared_ptr<SiblingCheck> SiblingCheckJs::shared(const Napi::Value& value, const char* what) {
  const Napi::FunctionReference& type = value.Env().GetInstanceData<Instance>()->sibling_check;
  return Unwrap(to_instance(value, type, what, "a SiblingCheck"))->check_;
}

SiblingCheckJs::SiblingCheckJs(const Napi::CallbackInfo& info)
    : Napi::ObjectWrap<SiblingCheckJs>(info) {}

void SiblingCheckJs::add_file(const Napi::CallbackInfo& info) {
  const std::string path = to_string(info[0], "path");
  guarded(info.Env(), [&] {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) throw io_error(path);
    check_->add(PagesReader(file.get()));
  });
}

Napi::Value SiblingCheckJs::problems(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return guarded(env, [&] {
    const std::vector<SiblingCheck::Problem> found = check_->problems();
    Napi::Array problems = Napi::Array::New(env, found.size());
    for (std::uint32_t i = 0; i < found.size(); ++i) {
      Napi::Object problem = Napi::Object::New(env);
      problem.Set("process", found[i].process);
      problem.Set("gpu", found[i].gpu);
      problem.Set("reason", found[i].reason);
      problems.Set(i, problem);
    }
    return problems;
  });
}

}  // namespace kfdcp::addon
