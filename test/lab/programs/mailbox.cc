#include "mailbox.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>
#include <thread>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "stop.h"

namespace lab {
namespace {

using kfdcp::io_error;
using std::chrono::milliseconds;

constexpr milliseconds kTick{20};
constexpr std::size_t kMaxCommandBytes = 256;

void append(const std::string& path, const std::string& text) {
  const kfdcp::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd) throw io_error(path);
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw io_error(path);
  }
}

void print(const std::string& text) {
  // Nobody may be reading any more after a restore, and that must not end the work.
  [[maybe_unused]] const ssize_t ignored = write(STDOUT_FILENO, text.data(), text.size());
}

std::string read_line(const std::string& path) {
  const kfdcp::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw io_error(path);
  std::string text;
  for (milliseconds waited{0}; waited <= milliseconds{2000};) {
    char buffer[kMaxCommandBytes];
    const ssize_t got = read(fd.get(), buffer, sizeof buffer);
    if (got < 0) throw io_error(path);
    text.append(buffer, static_cast<std::size_t>(got));
    const std::size_t end = text.find('\n');
    if (end != std::string::npos) return text.substr(0, end);
    if (text.size() > kMaxCommandBytes) break;
    if (got == 0) {
      std::this_thread::sleep_for(kTick);
      waited += kTick;
    }
  }
  return text.substr(0, kMaxCommandBytes);
}

}  // namespace

Mailbox::Mailbox(std::string dir, std::string status_file)
    : dir_(std::move(dir)), status_file_(std::move(status_file)) {
  if (mkdir(dir_.c_str(), 0755) != 0 && errno != EEXIST) throw io_error(dir_);
}

void Mailbox::announce(const std::string& line) const {
  append(status_file_, line + "\n");
  print(line + "\n");
}

std::optional<Command> Mailbox::take() const {
  // Renamed first: a command that is written while this one is read is the next one, not lost.
  const std::string path = dir_ + "/cmd", taken = dir_ + "/cmd.taken";
  if (rename(path.c_str(), taken.c_str()) != 0) {
    if (errno == ENOENT) return std::nullopt;
    throw io_error(path);
  }
  std::istringstream words(read_line(taken));
  unlink(taken.c_str());
  Command command;
  words >> command.verb >> command.id;
  return command;
}

void Mailbox::reply(const Command& command, const std::string& line) const {
  const std::string text = line + (command.id.empty() ? "" : " id=" + command.id) + "\n";
  append(dir_ + "/out", text);
  print(text);
}

void serve(const Mailbox& mailbox, const std::function<std::string(const Command&)>& answer,
           const std::function<void(milliseconds)>& tick) {
  while (!stop_requested()) {
    if (const auto command = mailbox.take()) {
      std::string line;
      try {
        line = answer(*command);
      } catch (const std::exception& error) {
        line = std::string("failed ") + error.what();
      }
      mailbox.reply(*command, line);
      if (command->verb == "exit") return;
      continue;
    }
    tick(kTick);
    std::this_thread::sleep_for(kTick);
  }
}

}  // namespace lab
