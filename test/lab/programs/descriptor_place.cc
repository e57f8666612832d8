#include "descriptor_place.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/os/error.h"

namespace lab {

kfdcp::UniqueFd reserve_descriptor() {
  kfdcp::UniqueFd place(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!place) throw kfdcp::io_error("/dev/null");
  return place;
}

void fill_descriptor(const kfdcp::UniqueFd& place, const kfdcp::UniqueFd& dmabuf) {
  if (dup3(dmabuf.get(), place.get(), O_CLOEXEC) == -1) throw kfdcp::io_error("dma-buf");
}

}  // namespace lab
