// What pipeline measures: transfers, a serial loop, the file alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/pipeline_model.h"
#include "core/os/fd.h"
#include "core/transfer/transfer.h"

namespace kfdcp::bench {

inline constexpr std::size_t kFrame = 2u << 20;
inline constexpr std::size_t kWorkers = 4;

struct Bench {
  std::string path;  // of the pages file
  std::uint64_t bytes;
  double link;          // bytes per second
  ModelEngine& engine;  // made once: its noise takes longer than a transfer
  int run = 0;

  /// Throws Error{io}, as all below.
  UniqueFd open(int flags) const;
};

/// Part of the file in the page cache.
double residency(const Bench& bench);
void evict(const Bench& bench);
/// Into the page cache, all of it.
void warm(const Bench& bench);

// Each returns whether it was a transfer. Only transfers have stages.

bool checkpoint(const Bench& bench, std::uint64_t each, TransferStats& stats);
bool restore(const Bench& bench, std::uint64_t each, TransferStats& stats);
/// Copies alone: nobody fills or empties the slots.
bool copies(const Bench& bench);
/// Read or write a chunk, copy it, wait, next. The bounce buffer has the size of the largest BO, an
/// eighth of the whole, and is new, as it is for each restore.
bool serial(const Bench& bench, bool to_disk);
/// The file alone, in requests of a frame by `threads` threads.
bool file_alone(const Bench& bench, int flags, std::size_t threads);

}  // namespace kfdcp::bench
