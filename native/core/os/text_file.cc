#include "core/os/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/os/fd.h"

namespace kfdcp {

namespace {

constexpr std::string_view kBlanks = " \t\n";
constexpr std::size_t kAtOnce = 4096;  // what the kernel gives of most of these files in one call

}  // namespace

std::optional<std::string> read_text(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::string text;
  for (;;) {
    const std::size_t have = text.size();
    text.resize(have + kAtOnce);
    const ssize_t got = ::read(fd.get(), text.data() + have, kAtOnce);
    text.resize(have + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got == 0) return text;
    if (got == -1 && errno != EINTR) return std::nullopt;
  }
}

std::optional<std::string_view> take_line(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return line;
}

std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(word.size());
  return word;
}

}  // namespace kfdcp
