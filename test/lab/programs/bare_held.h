// What kfd-worker holds, each by the kernel's own calls. The functions throw Error{gpu} or
// Error{io}.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "bare_gpu.h"
#include "held.h"
#include "pattern.h"

namespace lab {

/// --queues: a queue on each SDMA engine and AQL queues of several priorities, with holes in their
/// numbers, each with hundreds of packets behind one that waits for memory. check() sets that word:
/// every packet must then run once, in order.
std::unique_ptr<Holding> hold_backlogs(const BareGpu& gpu, std::chrono::milliseconds limit);

/// --events: events of all kinds, set and unset, with holes in their numbers, threads that wait for
/// some of them, and a memory exception with the queue it stopped. check() looks at every state and
/// wakes the threads.
std::unique_ptr<Holding> hold_events(const BareGpu& gpu, std::chrono::milliseconds limit);
std::unique_ptr<Holding> hold_exception(const BareGpu& gpu, std::chrono::milliseconds limit);

/// --memory: memory of every kind with known contents. check() compares what the CPU sees and what
/// the GPU copies out of each, and writes other contents by either.
std::unique_ptr<Holding> hold_memory(const BareGpu& gpu, const Pattern& pattern,
                                     std::chrono::milliseconds limit);

/// --svm: shared virtual memory with attributes (not on kernels that have none). check() compares
/// attributes and contents.
std::unique_ptr<Holding> hold_svm(const BareGpu& gpu, const Pattern& pattern);

}  // namespace lab
