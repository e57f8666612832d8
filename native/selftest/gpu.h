// A GPU by the kernel's own calls, without ROCr: one file of /dev/kfd, one of each render node.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/os/fd.h"

namespace kfdcp::selftest {

/// Where the kernel's files are. Tests have files of their own.
struct Places {
  std::string kfd = "/dev/kfd";
  std::string render = "/dev/dri/renderD";
  std::string nodes = "/sys/class/kfd/kfd/topology/nodes";
};

/// This process as KFD knows it.
class Kfd {
 public:
  /// Throws Error{io}.
  explicit Kfd(Places places);

  int fd() const { return fd_.get(); }
  const Places& places() const { return places_; }

 private:
  Places places_;
  UniqueFd fd_;
};

class Gpu {
 public:
  /// Bytes of the doorbells that one process has on a GPU.
  static constexpr std::size_t kDoorbellBytes = 8192;

  /// The GPU of render node `minor`, with an address space. Throws Error{io}, Error{gpu}, and
  /// Error{unsupported} for GPUs before gfx9, whose doorbells and packets differ.
  Gpu(const Kfd& kfd, unsigned minor);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int kfd() const { return kfd_.fd(); }
  int render() const { return render_.get(); }
  /// KFD's id, by which this process knows it also after a restore.
  std::uint32_t id() const { return id_; }
  /// A number of its node in the topology, as it was at the start; 0 when there is none.
  std::uint64_t property(const std::string& name) const;
  bool has_svm() const;
  /// For messages: "renderD128".
  std::string name() const { return "renderD" + std::to_string(minor_); }

  /// The doorbell at the offset that CREATE_QUEUE gives: the kernel tells nowhere else where they
  /// are to be mapped. Throws Error{io}.
  std::uint64_t& doorbell(std::uint64_t offset);

 private:
  void find_node();

  const Kfd& kfd_;
  unsigned minor_;
  UniqueFd render_;
  std::uint32_t id_ = 0;
  std::map<std::string, std::uint64_t> properties_;
  Mapping doorbells_;
  std::uint32_t doorbell_bo_ = 0;
  bool doorbells_mapped_ = false;
};

/// Addresses that nothing else of this process gets. Throws Error{io}.
Mapping reserve(std::size_t bytes);

/// Puts `bytes` bytes of a file, from `offset` on, in the place of reserved addresses. Throws
/// Error{io}.
void map_over(const Mapping& reserved, int protection, int fd, std::uint64_t offset);

}  // namespace kfdcp::selftest
