// A VRAM BO of another GPU, mapped on both.
#include "holding.h"

namespace lab {
namespace {

constexpr std::size_t kBytes = std::size_t{2} << 20;

class HeldOtherGpu : public Holding {
 public:
  HeldOtherGpu(const Runtime& runtime, Dma& dma, const Pattern& pattern)
      : dma_(dma), pattern_(pattern), buffer_(runtime, runtime.other_vram(), kBytes) {
    dma_.fill(buffer_.bytes(), pattern_, kOtherGpu);
    check();
  }

  const char* name() const override { return "other-gpu"; }

  /// By the engines of the GPU whose memory it is not.
  void check() override { dma_.verify(buffer_.bytes(), pattern_, kOtherGpu); }

 private:
  Dma& dma_;
  const Pattern& pattern_;
  PoolBuffer buffer_;
};

}  // namespace

std::unique_ptr<Holding> hold_other_gpu(const Runtime& runtime, Dma& dma, const Pattern& pattern) {
  return std::make_unique<HeldOtherGpu>(runtime, dma, pattern);
}

}  // namespace lab
