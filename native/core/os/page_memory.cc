#include "core/os/page_memory.h"

#include <sys/mman.h>

#include <string>

#include "core/os/error.h"

namespace kfdcp {

Mapping page_memory(std::size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw io_error("memory of " + std::to_string(bytes) + " bytes");
  return Mapping(base, bytes);
}

}  // namespace kfdcp
