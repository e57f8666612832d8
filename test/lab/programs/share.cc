#include "share.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "core/error.h"
#include "descriptor_place.h"
#include "foreign_buffer.h"

namespace lab {
namespace {

constexpr std::size_t kSharedBytes = std::size_t{4} << 20;

class SharerWork : public PeerWork {
 public:
  SharerWork(kfdcp::UniqueFd place, std::uint64_t seed, std::chrono::milliseconds limit)
      : place_(std::move(place)), pattern_(seed), dma_(runtime_, limit) {}

  kfdcp::UniqueFd exchange(const kfdcp::UniqueFd& dmabuf) override {
    imported_.emplace(runtime_, dmabuf.get());
    fill_descriptor(place_, dmabuf);
    own_.emplace(runtime_, runtime_.vram(), kSharedBytes);
    dma_.fill(own_->bytes(), pattern_, kShared);
    return export_dmabuf(*own_);
  }

  void advance(std::uint32_t generation) override {
    for (const std::span<std::byte> bytes : {imported_.value().bytes(), own_.value().bytes()}) {
      dma_.verify(bytes, pattern_, kShared + generation);
      dma_.fill(bytes, pattern_, kShared + generation + 1);
    }
    const ImportedBuffer again(runtime_, place_.get());
    dma_.verify(again.bytes(), pattern_, kShared + generation + 1);
  }

 private:
  kfdcp::UniqueFd place_;
  const Runtime runtime_;
  const Pattern pattern_;
  Dma dma_;
  std::optional<ImportedBuffer> imported_;
  std::optional<PoolBuffer> own_;
};

class HeldShare : public Holding {
 public:
  HeldShare(const Runtime& runtime, Dma& dma, const Pattern& pattern, const Peer& peer)
      : runtime_(runtime),
        dma_(dma),
        pattern_(pattern),
        peer_(peer),
        buffer_(runtime, runtime.vram(), kSharedBytes) {
    dma_.fill(buffer_.bytes(), pattern_, kShared);
    peer_.exchange(export_dmabuf(buffer_));
    check();
  }

  const char* name() const override { return "share"; }

  void check() override {
    dma_.verify(buffer_.bytes(), pattern_, kShared + generation_);
    peer_.advance(generation_);
    const ImportedBuffer theirs(runtime_, peer_.dmabuf().get());
    for (const std::span<std::byte> bytes : {buffer_.bytes(), theirs.bytes()}) {
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
  std::uint32_t generation_ = 0;
};

}  // namespace

std::unique_ptr<Holding> hold_share(const Runtime& runtime, Dma& dma, const Pattern& pattern,
                                    const Peer& peer) {
  return std::make_unique<HeldShare>(runtime, dma, pattern, peer);
}

int run_sharer(int socket, kfdcp::UniqueFd place, std::uint64_t seed,
               std::chrono::milliseconds limit) try {
  SharerWork work(std::move(place), seed, limit);
  return serve_peer(socket, work) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "gpu-worker: peer: %s\n", error.what());
  return 1;
}

}  // namespace lab
