// A kind of state that the program holds on a GPU.
#pragma once

#include <string>

namespace kfdcp::selftest {

class Part {
 public:
  virtual ~Part() = default;
  /// For messages and reports, such as "aql".
  virtual std::string name() const = 0;
  /// Whether all is as it was left, and works. It leaves new contents. Throws Error{gpu},
  /// Error{corrupt}.
  virtual void verify() = 0;
};

}  // namespace kfdcp::selftest
