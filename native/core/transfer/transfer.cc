#include "core/transfer/transfer.h"

namespace kfdcp {

const char* TransferStats::slowest() const {
  if (copy_wait_us >= work_wait_us) return "copy";
  return file.busy_us >= code.busy_us ? "file" : "code";
}

}  // namespace kfdcp
