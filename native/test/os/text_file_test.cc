#include "core/os/text_file.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "test/os/folder.h"

namespace kfdcp::test {

TEST_CASE("text file: whole, whatever its size, and whatever size it claims") {
  const Folder folder;
  for (const std::size_t size : {std::size_t{0}, std::size_t{4095}, std::size_t{4096},
                                 std::size_t{4097}, std::size_t{1} << 20}) {
    std::string text(size, 'x');
    if (size > 0) text.back() = 'y';
    folder.write("text", text);
    CHECK(read_text(folder.path() + "/text") == text);
  }
  CHECK(read_text("/proc/self/status").value_or("").find("NSpid:") != std::string::npos);
  errno = 0;
  CHECK_FALSE(read_text(folder.path() + "/missing").has_value());
  CHECK(errno == ENOENT);
  CHECK_FALSE(read_text(folder.path()).has_value());
  CHECK(errno == EISDIR);
}

TEST_CASE("text file: lines") {
  const auto lines = [](std::string_view text) {
    std::string joined;
    while (const auto line = take_line(text)) joined.append("[").append(*line).append("]");
    return joined;
  };
  CHECK(lines("").empty());
  CHECK(lines("\n") == "[]");
  CHECK(lines("a b\n\nc\n") == "[a b][][c]");
  CHECK(lines("no end") == "[no end]");
}

TEST_CASE("text file: words and integers") {
  std::string_view text = "  one\ttwo\n 3 -4 99999999999 6x";
  CHECK(take_word(text) == "one");
  CHECK_FALSE(take_integer<int>(text).has_value());
  CHECK(take_word(text) == "two");
  CHECK(take_integer<int>(text) == 3);
  CHECK_FALSE(take_integer<unsigned>(text).has_value());
  CHECK(take_integer<int>(text) == -4);
  CHECK_FALSE(take_integer<int>(text).has_value());  // does not fit, and is still there
  CHECK(take_integer<long long>(text) == 99'999'999'999);
  CHECK(take_integer<int>(text) == 6);
  CHECK(take_word(text) == "x");
  CHECK(take_word(text).empty());
  CHECK_FALSE(take_integer<int>(text).has_value());
}

}  // namespace kfdcp::test
