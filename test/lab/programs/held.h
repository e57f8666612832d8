// What a program of the tests may hold.
#pragma once

namespace lab {

/// One thing that is set up, and looked at again when it is asked for.
class Holding {
 public:
  virtual ~Holding() = default;
  /// Its name in replies, as on the command line.
  virtual const char* name() const = 0;
  /// Throws Error when it is no longer what it was.
  virtual void check() = 0;
};

}  // namespace lab
