#include "render_share.h"

#include <cstdio>
#include <exception>
#include <utility>

#include "core/os/error.h"
#include "descriptor_place.h"
#include "render_gem.h"

namespace lab {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

class RenderPeerWork : public PeerWork {
 public:
  RenderPeerWork(kfdcp::UniqueFd place, const std::string& node, const Pattern& pattern)
      : place_(std::move(place)), pattern_(pattern), file_(open_node(node)) {}

  kfdcp::UniqueFd exchange(const kfdcp::UniqueFd& dmabuf, const Note&) override {
    imported_ = import_gem(file_, dmabuf);
    theirs_ = map_gem(file_, imported_, kBytes);
    fill_descriptor(place_, dmabuf);
    const std::uint32_t own = create_gem(file_, kBytes);
    own_ = map_gem(file_, own, kBytes);
    pattern_.write(kShared, 0, own_.bytes());
    return export_gem(file_, own);
  }

  void advance(std::uint32_t generation) override {
    for (const std::span<std::byte> bytes : {theirs_.bytes(), own_.bytes()}) {
      pattern_.check("shared GEM BO", kShared + generation, 0, bytes);
      pattern_.write(kShared + generation + 1, 0, bytes);
    }
    if (import_gem(file_, place_) == imported_) return;
    throw kfdcp::Error(kfdcp::ErrorCode::corrupt, "the dma-buf is no longer that of its BO");
  }

 private:
  const kfdcp::UniqueFd place_;
  const Pattern& pattern_;
  const kfdcp::UniqueFd file_;
  std::uint32_t imported_ = 0;
  kfdcp::Mapping theirs_, own_;
};

}  // namespace

RenderShare::RenderShare(const std::string& node, const Pattern& pattern, const Peer& peer)
    : pattern_(pattern),
      peer_(peer),
      file_(open_node(node)),
      own_(create_gem(file_, kBytes)),
      memory_(map_gem(file_, own_, kBytes)) {
  pattern_.write(kShared, 0, memory_.bytes());
  peer_.exchange(export_gem(file_, own_));
  check();
}

void RenderShare::check() {
  peer_.advance(generation_);
  const std::uint32_t handle = import_gem(file_, peer_.dmabuf());
  {
    const kfdcp::Mapping theirs = map_gem(file_, handle, kBytes);
    for (const std::span<std::byte> bytes : {memory_.bytes(), theirs.bytes()}) {
      pattern_.check("shared GEM BO", kShared + generation_ + 1, 0, bytes);
      pattern_.write(kShared + generation_ + 2, 0, bytes);
    }
  }
  close_gem(file_, handle);
  generation_ += 2;
}

int run_render_peer(int socket, kfdcp::UniqueFd place, const std::string& node,
                    const Pattern& pattern) try {
  RenderPeerWork work(std::move(place), node, pattern);
  return serve_peer(socket, work) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "render-worker: peer: %s\n", error.what());
  return 1;
}

}  // namespace lab
