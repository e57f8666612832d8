// Unusual things a GPU process may hold, for checkpoints to save or to refuse with a reason.
#pragma once

#include <memory>
#include <string>

#include "dma.h"
#include "held.h"
#include "pattern.h"
#include "runtime.h"

namespace lab {

// The functions below throw Error{gpu} or Error{io}.

/// --dmabuf: an open dma-buf of `buffer`.
std::unique_ptr<Holding> hold_dmabuf(const PoolBuffer& buffer);

/// --gem: a GEM BO of 1 MiB, CPU-mapped and mapped into the GPU address space of a render file that
/// ROCr knows nothing of. --double-render: the same on the second of two render files.
std::unique_ptr<Holding> hold_gem(const Runtime& runtime, const Pattern& pattern, bool two_files);

/// --fork-holder: a child that sleeps with the inherited /dev/kfd and all dma-bufs of --dmabuf.
std::unique_ptr<Holding> hold_fork();

/// --double-kfd: a second open file of /dev/kfd.
std::unique_ptr<Holding> hold_second_kfd();

/// --other-gpu: a VRAM BO of a GPU that the worker does not work on, mapped on both.
std::unique_ptr<Holding> hold_other_gpu(const Runtime& runtime, Dma& dma, const Pattern& pattern);

/// --split: VRAM BOs with a mapping of the regular file `path` in between, one of the BOs seen as
/// three mappings.
std::unique_ptr<Holding> hold_split(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const std::string& path);

/// --map-dmabuf: a mapping of a GEM BO by its dma-buf, neither of which is open any more.
std::unique_ptr<Holding> hold_mapping(const Runtime& runtime, const Pattern& pattern);

/// --io-uring: rings of io_uring.
std::unique_ptr<Holding> hold_io_uring();

}  // namespace lab
