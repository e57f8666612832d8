// Commands in, replies out: plain files, opened only for the moment they are used, so that a
// checkpoint finds nothing open and a restored process finds them by name.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace lab {

/// One line of <dir>/cmd.
struct Command {
  std::string verb;
  std::string id;  // may be empty
};

/// The control directory of one program.
class Mailbox {
 public:
  /// Makes `dir` if it is missing. Throws Error{io}.
  Mailbox(std::string dir, std::string status_file);

  /// Appends `line` to the status file and to stdout. Throws Error{io} when the file cannot be
  /// written.
  void announce(const std::string& line) const;
  /// Takes <dir>/cmd away and returns what it says, if it is there. A writer that created the file
  /// but did not finish its line is waited for up to 2 s. Throws Error{io}.
  std::optional<Command> take() const;
  /// Appends `line` (and the id, as " id=<id>") to <dir>/out and to stdout. Throws Error{io}.
  void reply(const Command& command, const std::string& line) const;

  const std::string& dir() const { return dir_; }

 private:
  std::string dir_;
  std::string status_file_;
};

/// Answers commands until "exit" or a stop signal. `answer` returns the reply; what it throws
/// becomes the reply "failed <what>". `tick` runs about every 20 ms between commands.
void serve(const Mailbox& mailbox, const std::function<std::string(const Command&)>& answer,
           const std::function<void(std::chrono::milliseconds)>& tick);

}  // namespace lab
