// A child that shares BOs with this process: fixed-size messages on a socket, one reply each.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>

#include "core/os/fd.h"

namespace lab {

/// What goes with the dma-buf that is exchanged: as much as a handle of ROCr's IPC.
using Note = std::array<std::uint32_t, 8>;

/// What the child does with the BOs. Errors go to the parent as text.
class PeerWork {
 public:
  virtual ~PeerWork() = default;
  /// Imports the BO of `dmabuf`, and keeps that descriptor. Returns a dma-buf of a BO of its own,
  /// which it does not keep.
  virtual kfdcp::UniqueFd exchange(const kfdcp::UniqueFd& dmabuf, const Note& note) = 0;
  /// Verifies that all BOs hold `generation` and writes the next one.
  virtual void advance(std::uint32_t generation) = 0;
};

/// Serves requests on `socket` until it closes or a stop signal comes. False when it broke.
bool serve_peer(int socket, PeerWork& work);

/// The child, as its parent sees it.
class Peer {
 public:
  /// Runs in the child, with the socket to serve and the place for the dma-buf that is exchanged;
  /// returns its exit code.
  using Main = std::function<int(int socket, kfdcp::UniqueFd place)>;

  /// Forks. Only before a device is opened and before there are threads. `limit` is that of the
  /// child's own waits. Throws Error{io}.
  Peer(const Main& main, std::chrono::milliseconds limit);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Has the child import the BO of `dmabuf` and hold that descriptor. From then on this process
  /// holds one of the child's BO. Throws Error{gpu} with the child's reason, or when it does not
  /// answer in time.
  void exchange(const kfdcp::UniqueFd& dmabuf, const Note& note = {}) const;
  /// Has the child verify and write. Throws as exchange() does.
  void advance(std::uint32_t generation) const;
  /// The dma-buf of the child's BO. Nobody else has it open.
  const kfdcp::UniqueFd& dmabuf() const { return place_; }

 private:
  kfdcp::UniqueFd receive_reply() const;

  const std::chrono::milliseconds limit_;
  kfdcp::UniqueFd place_;
  kfdcp::UniqueFd socket_;
  pid_t pid_ = -1;
};

}  // namespace lab
