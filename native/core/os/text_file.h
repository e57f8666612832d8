// Small text files of /proc and /sys, without iostreams. Every CRIU of the host loads the plugin,
// and iostreams with their locales were half of its file.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

namespace kfdcp {

/// All of the file, whatever size it claims to have; nullopt when it cannot be opened or read
/// (errno says why).
std::optional<std::string> read_text(const std::string& path);

/// Takes the first line from the front of `text`, without its newline; nullopt at the end.
std::optional<std::string_view> take_line(std::string_view& text);

/// Takes the first word from the front of `text`, with the white space before it; empty when there
/// is none.
std::string_view take_word(std::string_view& text);

/// Takes the integer that the front of `text` is, with the white space before it; nullopt, and
/// `text` as it was, when it is none or does not fit.
template <class T>
std::optional<T> take_integer(std::string_view& text) {
  std::string_view rest = text;
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t\n"), rest.size()));
  T value{};
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return value;
}

}  // namespace kfdcp
