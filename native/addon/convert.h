// Values and errors between C++ and JS.
#pragma once

#include <napi.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "core/os/error.h"

namespace kfdcp::addon {

/// A JS Error with `code` ("KFD_IO", ...) and, where one is known, `errno`.
Napi::Error to_js_error(Napi::Env env, const std::exception& error);

/// Byte counts and times are JS numbers: exact up to 2^53. Throws RangeError beyond.
Napi::Number to_number(Napi::Env env, std::uint64_t value);

/// For offsets in a device, which may have any of 64 bits.
Napi::BigInt to_bigint(Napi::Env env, std::uint64_t value);

/// Reads a whole, non-negative number below 2^53. Throws TypeError, which names `what`.
std::uint64_t to_uint64(const Napi::Value& value, const char* what);
std::uint32_t to_uint32(const Napi::Value& value, const char* what);
std::string to_string(const Napi::Value& value, const char* what);
std::vector<std::string> to_strings(const Napi::Value& value, const char* what);
/// The bytes of a Buffer, as long as that lives. Throws TypeError, which names `what`.
std::span<const std::byte> to_bytes(const Napi::Value& value, const char* what);
Napi::Object to_object(const Napi::Value& value, const char* what);
/// An object of the class `type`, which `name` calls by its article ("a Descriptor").
Napi::Object to_instance(const Napi::Value& value, const Napi::FunctionReference& type,
                         const char* what, const char* name);

/// Runs `body`, turning an exception of the core into a JS one.
template <class F>
auto guarded(Napi::Env env, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Napi::Error&) {
    throw;
  } catch (const std::exception& error) {
    throw to_js_error(env, error);
  }
}

}  // namespace kfdcp::addon
