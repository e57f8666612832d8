// Orders in, answers out: plain files, opened only for the moment they are used. A checkpoint finds
// nothing open, and a restored process finds them by name.
#pragma once

#include <optional>
#include <string>

namespace kfdcp::selftest {

/// DIR/order has one line, "ID VERB". DIR/answers gets one line of JSON for each.
class Mailbox {
 public:
  explicit Mailbox(std::string folder);

  struct Order {
    std::string id, verb;
  };
  /// Takes DIR/order away and returns what it says, if it is there. Whoever writes it renames it
  /// there when it is whole. Throws Error{io}.
  std::optional<Order> take() const;
  /// Appends {"id": ..., "result": ..., <members>}. `members`: JSON, or empty. Throws Error{io}.
  void answer(const std::string& id, const std::string& result, const std::string& members) const;
  /// False once the folder is gone: nobody will order anything any more.
  bool exists() const;

 private:
  std::string folder_;
};

/// A text as JSON has it, in quotes.
std::string json_text(const std::string& text);

}  // namespace kfdcp::selftest
