#include "churn.h"

#include <vector>

#include "queue.h"

namespace lab {
namespace {

constexpr std::size_t kSizes[] = {4096, 12 * 1024, 64 * 1024, 2 << 20, 5 << 20};

}  // namespace

std::uint64_t churn(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                    std::chrono::milliseconds limit) {
  std::uint64_t verified = 0;
  std::vector<PoolBuffer> kept;
  for (std::uint32_t round = 0; round < 2; ++round) {
    std::vector<PoolBuffer> freed;
    for (const std::size_t size : kSizes) {
      kept.emplace_back(runtime, runtime.vram(), size);
      freed.emplace_back(runtime, runtime.vram(), size);
      dma.fill(kept.back().bytes(), pattern, kChurn + kept.size());
    }
    // The second round allocates into the holes of the first.
  }
  for (std::size_t i = 0; i < kept.size(); ++i) {
    dma.verify(kept[i].bytes(), pattern, kChurn + i + 1);
    verified += kept[i].bytes().size();
  }
  ComputeQueue queue(runtime);
  const Signal done(1);
  queue.submit_barrier(hsa_signal_t{0}, done);
  done.wait_done("packet on a new queue", limit);
  return verified;
}

}  // namespace lab
