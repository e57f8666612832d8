// Rings of io_uring, whose submission ring is mapped.
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "holding.h"

namespace lab {
namespace {

class HeldIoUring : public Holding {
 public:
  HeldIoUring() {
    io_uring_params params{};
    ring_ = kfdcp::UniqueFd(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &params)));
    if (!ring_) throw kfdcp::io_error("io_uring_setup");
    const std::size_t bytes = params.sq_off.array + params.sq_entries * sizeof(__u32);
    void* base =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_.get(), IORING_OFF_SQ_RING);
    if (base == MAP_FAILED) throw kfdcp::io_error("mapping a ring of io_uring");
    mapping_ = {base, bytes};
  }

  const char* name() const override { return "io-uring"; }
  void check() override {}

 private:
  kfdcp::UniqueFd ring_;
  kfdcp::Mapping mapping_;
};

}  // namespace

std::unique_ptr<Holding> hold_io_uring() { return std::make_unique<HeldIoUring>(); }

}  // namespace lab
