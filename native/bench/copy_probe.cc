// copy_probe RENDER_NODE MIB SLOTS [BUFFERS]
//
// Allocates MIB MiB of VRAM in BUFFERS buffers (default 1), fills them with a pattern through the
// SDMA engine, reads them back through it, verifies every byte, and prints the rates in MB/s
// (10^6 bytes) for a ring of one slot and a ring of SLOTS slots, and their ratio. Exits 0 when all
// bytes were right, 1 on an error, 2 on wrong usage.
#include <amdgpu_drm.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <xf86drm.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/copy/copy_engine.h"
#include "core/os/error.h"
#include "core/os/fd.h"
#include "core/transfer/transfer_ring.h"

namespace {

using namespace kfdcp;

struct Arguments {
  const char* node;
  std::uint64_t bytes;  // of one buffer
  std::size_t slots;
  std::uint64_t buffers;
};

struct Rates {  // MB/s
  double write;
  double read;
};

Error drm_error(const std::string& call) {
  const int err = errno;
  return Error(ErrorCode::gpu, call + ": " + std::strerror(err), err);
}

UniqueFd open_node(const char* node) {
  UniqueFd fd(::open(node, O_RDWR | O_CLOEXEC));
  if (!fd) throw io_error(node);
  return fd;
}

/// A VRAM buffer that lives by its dma-buf alone, as the engine meets the buffers of a process.
/// It is made without libdrm's device object, which the engine would share.
UniqueFd allocate_vram(int render_fd, std::uint64_t bytes) {
  drm_amdgpu_gem_create create{};
  create.in.bo_size = bytes;
  create.in.alignment = 4096;
  create.in.domains = AMDGPU_GEM_DOMAIN_VRAM;
  if (drmCommandWriteRead(render_fd, DRM_AMDGPU_GEM_CREATE, &create, sizeof create) != 0) {
    throw drm_error("GEM_CREATE of " + std::to_string(bytes) + " bytes");
  }
  const std::uint32_t handle = create.out.handle;
  int dmabuf = -1;
  const int exported = drmPrimeHandleToFD(render_fd, handle, DRM_CLOEXEC | DRM_RDWR, &dmabuf);
  const Error failure = drm_error("PRIME_HANDLE_TO_FD");
  drmCloseBufferHandle(render_fd, handle);
  if (exported != 0) throw failure;
  return UniqueFd(dmabuf);
}

/// The pattern: each 8 bytes tell the pass, the buffer and their own offset.
std::uint64_t pattern(std::uint64_t pass, std::size_t buffer, std::uint64_t offset) {
  return (offset / 8 + 1) * 0x9e3779b97f4a7c15ull ^ (pass << 56) ^ (buffer << 32);
}

void fill(std::span<std::byte> bytes, std::uint64_t pass, std::size_t buffer,
          std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    const std::uint64_t word = pattern(pass, buffer, offset + i);
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
}

void verify(std::span<const std::byte> bytes, std::uint64_t pass, std::size_t buffer,
            std::uint64_t offset) {
  for (std::size_t i = 0; i < bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    if (word == pattern(pass, buffer, offset + i)) continue;
    throw Error(ErrorCode::corrupt, "buffer " + std::to_string(buffer) + ": wrong bytes at " +
                                        std::to_string(offset + i));
  }
}

/// Calls `work(buffer, offset, bytes)` for every chunk of every buffer, in order.
template <class Work>
void for_each_chunk(const Arguments& args, std::size_t chunk, Work&& work) {
  for (std::size_t buffer = 0; buffer < args.buffers; ++buffer) {
    for (std::uint64_t offset = 0; offset < args.bytes; offset += chunk) {
      work(buffer, offset,
           static_cast<std::size_t>(std::min<std::uint64_t>(chunk, args.bytes - offset)));
    }
  }
}

double rate(const Arguments& args, std::chrono::steady_clock::time_point begin) {
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return static_cast<double>(args.bytes * args.buffers) / 1e6 / time.count();
}

double write_all(CopyEngine& engine, const Arguments& args, const std::vector<UniqueFd>& vram,
                 std::uint64_t pass) {
  const auto begin = std::chrono::steady_clock::now();
  TransferRing ring(engine);
  std::shared_ptr<LiveBuffer> live;
  for_each_chunk(args, engine.slot_bytes(), [&](std::size_t n, std::uint64_t at, std::size_t size) {
    if (!ring.has_free()) {
      for (const std::size_t slot : ring.wait()) ring.give_back(slot);
    }
    if (at == 0) live = ring.open(static_cast<std::uint32_t>(n), vram[n].get(), args.bytes);
    const std::size_t slot = ring.take();
    fill(engine.slot(slot).first(size), pass, n, at);
    ring.write(slot, {{live, at, 0, size}});
  });
  while (ring.in_flight() > 0) ring.wait();
  return rate(args, begin);
}

double read_all(CopyEngine& engine, const Arguments& args, const std::vector<UniqueFd>& vram,
                std::uint64_t pass) {
  struct Chunk {
    std::size_t buffer;
    std::uint64_t offset;
    std::size_t size;
  };
  const auto begin = std::chrono::steady_clock::now();
  std::deque<Chunk> chunks;
  TransferRing ring(engine);
  std::shared_ptr<LiveBuffer> live;
  const auto retire = [&] {
    for (const std::size_t slot : ring.wait()) {
      const Chunk& chunk = chunks.front();
      verify(engine.slot(slot).first(chunk.size), pass, chunk.buffer, chunk.offset);
      ring.give_back(slot);
      chunks.pop_front();
    }
  };
  for_each_chunk(args, engine.slot_bytes(), [&](std::size_t n, std::uint64_t at, std::size_t size) {
    if (!ring.has_free()) retire();
    if (at == 0) live = ring.open(static_cast<std::uint32_t>(n), vram[n].get(), args.bytes);
    ring.read(ring.take(), {{live, at, 0, size}});
    chunks.push_back({n, at, size});
  });
  while (ring.in_flight() > 0) retire();
  return rate(args, begin);
}

/// Writes and reads everything through a new engine. `pass` makes the pattern its own, so that
/// bytes an earlier pass left behind are not taken for right.
Rates measure(const Arguments& args, std::size_t slots, const std::vector<UniqueFd>& vram,
              std::uint64_t pass) {
  const UniqueFd node = open_node(args.node);
  const auto engine = make_sdma_engine(node.get(), {.slots = slots, .slot_bytes = 2u << 20});
  const double write = write_all(*engine, args, vram, pass);
  const double read = read_all(*engine, args, vram, pass);
  std::printf("%zu slots: write %.0f MB/s, read %.0f MB/s\n", slots, write, read);
  return {write, read};
}

bool number(const char* text, std::uint64_t& value) {
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  return error == std::errc{} && rest == end && value > 0;
}

bool parse(int argc, char** argv, Arguments& args) {
  std::uint64_t mib = 0;
  std::uint64_t slots = 0;
  args.buffers = 1;
  if (argc < 4 || argc > 5 || !number(argv[2], mib) || !number(argv[3], slots)) return false;
  if (argc == 5 && !number(argv[4], args.buffers)) return false;
  args.node = argv[1];
  args.slots = slots;
  if (mib > 1u << 20 || args.buffers > 1u << 20) return false;
  args.bytes = (mib << 20) / args.buffers & ~std::uint64_t{4095};
  return args.bytes > 0;
}

int run(const Arguments& args) {
  // One descriptor per buffer.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) throw io_error("RLIMIT_NOFILE");
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) throw io_error("RLIMIT_NOFILE");

  std::vector<UniqueFd> vram;
  const UniqueFd node = open_node(args.node);
  for (std::uint64_t n = 0; n < args.buffers; ++n) {
    vram.push_back(allocate_vram(node.get(), args.bytes));
  }
  std::printf("%llu buffers of %llu bytes\n", static_cast<unsigned long long>(args.buffers),
              static_cast<unsigned long long>(args.bytes));
  const Rates one = measure(args, 1, vram, 1);
  const Rates many = measure(args, args.slots, vram, 2);
  std::printf("ratio: write %.2f, read %.2f\n", many.write / one.write, many.read / one.read);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments args{};
  if (!parse(argc, argv, args)) {
    std::fprintf(stderr, "usage: copy_probe RENDER_NODE MIB SLOTS [BUFFERS]\n");
    return 2;
  }
  try {
    return run(args);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "copy_probe: %s\n", error.what());
    return 1;
  }
}
