#include "core/kfd/traced.h"

#include <sys/ptrace.h>

#include <exception>
#include <string>
#include <thread>

#include "core/os/error.h"

namespace kfdcp::kfd {

void as_tracer_of(int pid, const std::function<void()>& work) {
  std::exception_ptr failure;
  std::thread([&] {
    try {
      if (::ptrace(PTRACE_SEIZE, pid, nullptr, nullptr) == -1) {
        throw io_error("attach to pid " + std::to_string(pid));
      }
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace kfdcp::kfd
