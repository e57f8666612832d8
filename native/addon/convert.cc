#include "addon/convert.h"

#include <cmath>

namespace kfdcp::addon {

namespace {
constexpr double kMaxExact = 9007199254740992.0;  // 2^53
}

Napi::Error to_js_error(Napi::Env env, const std::exception& error) {
  Napi::Error js = Napi::Error::New(env, error.what());
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    js.Set("code", Napi::String::New(env, error_name(ours->code)));
    if (ours->err != 0) js.Set("errno", Napi::Number::New(env, ours->err));
  }
  return js;
}

Napi::Number to_number(Napi::Env env, std::uint64_t value) {
  if (static_cast<double>(value) >= kMaxExact) {
    throw Napi::RangeError::New(env, "a number does not fit in 53 bits");
  }
  return Napi::Number::New(env, static_cast<double>(value));
}

Napi::BigInt to_bigint(Napi::Env env, std::uint64_t value) { return Napi::BigInt::New(env, value); }

std::uint64_t to_uint64(const Napi::Value& value, const char* what) {
  if (value.IsNumber()) {
    const double number = value.As<Napi::Number>().DoubleValue();
    if (number >= 0 && number < kMaxExact && std::floor(number) == number) {
      return static_cast<std::uint64_t>(number);
    }
  }
  throw Napi::TypeError::New(value.Env(), std::string(what) + ": not a whole number");
}

std::uint32_t to_uint32(const Napi::Value& value, const char* what) {
  const std::uint64_t number = to_uint64(value, what);
  if (number > 0xffffffffu) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": does not fit in 32 bits");
  }
  return static_cast<std::uint32_t>(number);
}

std::string to_string(const Napi::Value& value, const char* what) {
  if (!value.IsString()) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not a string");
  }
  return value.As<Napi::String>().Utf8Value();
}

std::vector<std::string> to_strings(const Napi::Value& value, const char* what) {
  if (!value.IsArray()) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not an array");
  }
  const auto array = value.As<Napi::Array>();
  std::vector<std::string> strings;
  for (std::uint32_t i = 0; i < array.Length(); ++i) {
    strings.push_back(to_string(array.Get(i), what));
  }
  return strings;
}

std::span<const std::byte> to_bytes(const Napi::Value& value, const char* what) {
  if (!value.IsBuffer()) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not a Buffer");
  }
  const auto buffer = value.As<Napi::Buffer<char>>();
  return {reinterpret_cast<const std::byte*>(buffer.Data()), buffer.Length()};
}

Napi::Object to_object(const Napi::Value& value, const char* what) {
  if (!value.IsObject()) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not an object");
  }
  return value.As<Napi::Object>();
}

Napi::Object to_instance(const Napi::Value& value, const Napi::FunctionReference& type,
                         const char* what, const char* name) {
  if (!value.IsObject() || !value.As<Napi::Object>().InstanceOf(type.Value())) {
    throw Napi::TypeError::New(value.Env(), std::string(what) + ": not " + name);
  }
  return value.As<Napi::Object>();
}

}  // namespace kfdcp::addon
