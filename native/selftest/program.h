// All that the program holds, on each of its GPUs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "selftest/contents.h"
#include "selftest/gpu.h"
#include "selftest/share.h"
#include "selftest/work.h"

namespace kfdcp::selftest {

struct Options {
  std::string folder;                                  // of the mailbox
  std::vector<unsigned> minors;                        // of render nodes
  std::uint64_t vram_bytes = std::uint64_t{16} << 20;  // on each GPU
  bool shares = false;  // a second process shares a buffer on the first GPU
};

/// Throws Error{unsupported} with what is wrong.
Options parse_options(const std::vector<std::string>& words);

class Program {
 public:
  /// Throws Error{io}, Error{gpu}.
  Program(const Options& options, const Places& places);

  /// Compares and tries all parts. Throws Error{gpu}, Error{corrupt}, with the GPU in front.
  void verify();
  /// Keeps the GPUs at work. To be called every few milliseconds.
  void feed();
  /// Members of JSON: the rounds of each GPU, whether all are at work, and the parts.
  std::string state() const;

 private:
  /// In the order of their construction: later ones use earlier ones.
  struct Holding {
    std::unique_ptr<Gpu> gpu;
    std::unique_ptr<Mover> mover;
    std::unique_ptr<Stream> stream;
    std::vector<std::unique_ptr<Part>> parts;
  };
  void hold(Holding& holding, unsigned minor, const Options& options, bool first);

  std::optional<Partner> partner_;
  std::optional<Kfd> kfd_;
  std::vector<Holding> holdings_;
};

}  // namespace kfdcp::selftest
