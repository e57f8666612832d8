// Memory of every kind with known contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "selftest/buffer.h"
#include "selftest/part.h"
#include "selftest/queue.h"

namespace kfdcp::selftest {

/// Copies by SDMA, one at a time, through memory that the CPU sees.
class Mover {
 public:
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  explicit Mover(Gpu& gpu);
  /// Fills `bytes` bytes at GPU address `to` with the contents of `key`.
  void write(std::uint64_t to, std::uint64_t bytes, std::uint64_t key);
  /// Compares them. Throws Error{corrupt} "<what>: ...".
  void check(const std::string& what, std::uint64_t from, std::uint64_t bytes, std::uint64_t key);

 private:
  void copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes);

  SdmaQueue queue_;
  Buffer staging_, done_;
  std::uint32_t copies_ = 0;
};

/// VRAM, GTT and user memory, each read and written by the GPU, the last two by the CPU as well.
class Contents : public Part {
 public:
  /// `vram_bytes`: a multiple of 4096. `seed`: contents of different seeds have nothing in common.
  Contents(Gpu& gpu, Mover& mover, std::uint64_t vram_bytes, std::uint64_t seed);

  std::string name() const override { return "contents"; }
  void verify() override;

 private:
  struct Piece {
    std::string name;
    Buffer buffer;
    bool visible;  // to the CPU
  };

  std::uint64_t key(std::size_t piece) const;
  void write(bool by_cpu);
  void check();

  Mover& mover_;
  const std::uint64_t seed_;
  std::uint64_t generation_ = 0;
  std::vector<Mapping> user_;  // before what is made of it
  std::vector<Piece> pieces_;
};

/// A range of shared virtual memory with attributes and contents.
class Svm : public Part {
 public:
  Svm(Gpu& gpu, Mover& mover, std::uint64_t seed);

  std::string name() const override { return "svm"; }
  void verify() override;

 private:
  struct Attribute {
    std::uint32_t type, value;
  };
  std::vector<Attribute> ask(std::uint32_t operation, std::vector<Attribute> attributes);

  Gpu& gpu_;
  Mover& mover_;
  const std::uint64_t seed_;
  std::uint64_t generation_ = 0;
  Mapping memory_;
};

}  // namespace kfdcp::selftest
