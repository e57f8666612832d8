#include "selftest/mailbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "core/os/error.h"
#include "core/os/fd.h"

namespace kfdcp::selftest {

Mailbox::Mailbox(std::string folder) : folder_(std::move(folder)) {}

std::optional<Mailbox::Order> Mailbox::take() const {
  const std::string path = folder_ + "/order";
  std::ifstream file(path);
  if (!file) return std::nullopt;
  Order order;
  file >> order.id >> order.verb;
  file.close();
  if (::unlink(path.c_str()) != 0) throw io_error(path);
  return order;
}

void Mailbox::answer(const std::string& id, const std::string& result,
                     const std::string& members) const {
  const std::string path = folder_ + "/answers";
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  const std::string line = "{\"id\":" + json_text(id) + ",\"result\":" + json_text(result) +
                           (members.empty() ? "" : "," + members) + "}\n";
  if (!file || ::write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw io_error(path);
  }
}

bool Mailbox::exists() const {
  struct stat folder {};
  return ::stat(folder_.c_str(), &folder) == 0;
}

std::string json_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (code < 0x20 || code > 0x7e) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", code);
      quoted += escaped;
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

}  // namespace kfdcp::selftest
