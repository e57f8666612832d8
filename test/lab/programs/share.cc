#include "share.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "descriptor_place.h"
#include "foreign_buffer.h"

namespace lab {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{4} << 20;

class SharerWork : public PeerWork {
 public:
  SharerWork(kfdcp::UniqueFd place, const Options& options)
      : place_(std::move(place)),
        runtime_(options.peer_gpu),
        pattern_(options.seed),
        dma_(runtime_, options.limit) {}

  kfdcp::UniqueFd exchange(const kfdcp::UniqueFd& dmabuf, const Note& note) override {
    std::ranges::copy(note, handle_.handle);
    by_ipc_ = note != Note{};
    if (by_ipc_) attached_.emplace(handle_, kSharedBytes);
    imported_.emplace(runtime_, dmabuf.get());
    fill_descriptor(place_, dmabuf);
    own_.emplace(runtime_, runtime_.vram(), kSharedBytes);
    dma_.fill(own_->bytes(), pattern_, kShared);
    return export_dmabuf(*own_);
  }

  void advance(std::uint32_t generation) override {
    std::vector<std::span<std::byte>> all{imported_.value().bytes(), own_.value().bytes()};
    if (by_ipc_) all.push_back(attached_.value().bytes());
    for (const std::span<std::byte> bytes : all) {
      dma_.verify(bytes, pattern_, kShared + generation);
      dma_.fill(bytes, pattern_, kShared + generation + 1);
    }
    const ImportedBuffer again(runtime_, place_.get());
    dma_.verify(again.bytes(), pattern_, kShared + generation + 1);
    if (!by_ipc_) return;
    attached_.emplace(handle_, kSharedBytes);  // asks the exporter once more
    dma_.verify(attached_->bytes(), pattern_, kShared + generation + 1);
  }

 private:
  kfdcp::UniqueFd place_;
  const Runtime runtime_;
  const Pattern pattern_;
  Dma dma_;
  hsa_amd_ipc_memory_t handle_{};
  bool by_ipc_ = false;
  std::optional<ImportedBuffer> imported_;
  std::optional<AttachedBuffer> attached_;
  std::optional<PoolBuffer> own_;
};

class HeldShare : public Holding {
 public:
  HeldShare(const Runtime& runtime, Dma& dma, const Pattern& pattern, const Peer& peer, bool ipc)
      : runtime_(runtime),
        dma_(dma),
        pattern_(pattern),
        peer_(peer),
        buffer_(runtime, runtime.vram(), kSharedBytes) {
    dma_.fill(buffer_.bytes(), pattern_, kShared);
    Note note{};
    if (ipc) {
      by_ipc_.emplace(runtime, runtime.vram(), kSharedBytes);
      dma_.fill(by_ipc_->bytes(), pattern_, kShared);
      note = std::to_array(ipc_handle(*by_ipc_).handle);
    }
    peer_.exchange(export_dmabuf(buffer_), note);
    check();
  }

  const char* name() const override { return "share"; }

  void check() override {
    dma_.verify(buffer_.bytes(), pattern_, kShared + generation_);
    peer_.advance(generation_);
    const ImportedBuffer theirs(runtime_, peer_.dmabuf().get());
    std::vector<std::span<std::byte>> all{buffer_.bytes(), theirs.bytes()};
    if (by_ipc_) all.push_back(by_ipc_->bytes());
    for (const std::span<std::byte> bytes : all) {
      dma_.verify(bytes, pattern_, kShared + generation_ + 1);
      dma_.fill(bytes, pattern_, kShared + generation_ + 2);
    }
    peer_.advance(generation_ + 2);
    generation_ += 3;
  }

 private:
  const Runtime& runtime_;
  Dma& dma_;
  const Pattern& pattern_;
  const Peer& peer_;
  PoolBuffer buffer_;
  std::optional<PoolBuffer> by_ipc_;
  std::uint32_t generation_ = 0;
};

}  // namespace

std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer, bool ipc) {
  return std::make_unique<HeldShare>(runtime, dma, pattern, peer, ipc);
}

int run_sharer(int socket, kfdcp::UniqueFd place, const Options& options) try {
  SharerWork work(std::move(place), options);
  return serve_peer(socket, work) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu-worker: peer: %s\n", error.what());
  return 1;
}

}  // namespace lab
