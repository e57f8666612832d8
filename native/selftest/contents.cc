#include "selftest/contents.h"

#include <algorithm>
#include <utility>

#include "core/os/pattern.h"
#include "selftest/wait.h"

namespace kfdcp::selftest {
namespace {

/// No multiple of a large page.
constexpr std::size_t kSystemBytes = (std::size_t{3} << 20) + 3 * 4096;

}  // namespace

Mover::Mover(Gpu& gpu)
    : queue_(gpu), staging_(Buffer::gtt(gpu, kBytes)), done_(Buffer::gtt(gpu, 4096)) {
  store(done_.word(0), 0);
}

void Mover::copy(std::uint64_t to, std::uint64_t from, std::uint64_t bytes) {
  const std::uint32_t number = ++copies_;
  queue_.copy(to, from, bytes);
  queue_.fence(done_.address(), number);
  queue_.start();
  wait_until("SDMA copy", [&] { return load(done_.word(0)) == number; });
}

void Mover::write(std::uint64_t to, std::uint64_t bytes, std::uint64_t key) {
  for (std::uint64_t at = 0; at < bytes; at += kBytes) {
    const std::size_t part = std::min<std::uint64_t>(kBytes, bytes - at);
    write_pattern(staging_.bytes().first(part), key, at);
    copy(to + at, staging_.address(), part);
  }
}

void Mover::check(const std::string& what, std::uint64_t from, std::uint64_t bytes,
                  std::uint64_t key) {
  for (std::uint64_t at = 0; at < bytes; at += kBytes) {
    const std::size_t part = std::min<std::uint64_t>(kBytes, bytes - at);
    // A copy that does nothing must not find the bytes of the one before it.
    std::ranges::fill(staging_.bytes().first(part), std::byte{0xee});
    copy(staging_.address(), from + at, part);
    check_pattern(what, staging_.bytes().first(part), key, at);
  }
}

Contents::Contents(Gpu& gpu, Mover& mover, std::uint64_t vram_bytes, std::uint64_t seed)
    : mover_(mover), seed_(seed) {
  pieces_.push_back({"VRAM", Buffer::vram(gpu, vram_bytes), false});
  pieces_.push_back({"GTT", Buffer::gtt(gpu, kSystemBytes), true});
  user_.push_back(host_memory(kSystemBytes));
  pieces_.push_back({"user memory", Buffer::userptr(gpu, user_.back().bytes()), true});
  write(false);
}

std::uint64_t Contents::key(std::size_t piece) const {
  return (seed_ << 32) + generation_ * pieces_.size() + piece + 1;
}

void Contents::write(bool by_cpu) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (by_cpu && piece.visible) {
      write_pattern(piece.buffer.bytes(), key(i), 0);
    } else {
      mover_.write(piece.buffer.address(), piece.buffer.size(), key(i));
    }
  }
}

void Contents::check() {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    if (piece.visible) check_pattern(piece.name, piece.buffer.bytes(), key(i), 0);
    mover_.check(piece.name + ", read by the GPU", piece.buffer.address(), piece.buffer.size(),
                 key(i));
  }
}

void Contents::verify() {
  check();
  ++generation_;
  // In turns: what the CPU has written is read by the GPU, and the other way.
  write(generation_ % 2 == 1);
  check();
}

}  // namespace kfdcp::selftest
