#include "core/pages/hash.h"

// Inlined, so that the CRIU plugin needs no library of the host.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "core/pages/hash_kernels.h"

namespace kfdcp {

namespace {

Digest128 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Digest128 out;
  static_assert(sizeof(bytes.digest) == sizeof(out));
  std::memcpy(out.data(), bytes.digest, out.size());
  return out;
}

const HashKernels& kernels() {
#ifdef __x86_64__
  static const HashKernels& best = __builtin_cpu_supports("avx2") ? kHashAvx2 : kHashPortable;
  return best;
#else
  return kHashPortable;
#endif
}

}  // namespace

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return kernels().hash64(bytes.data(), bytes.size());
}

Digest128 xxh3_128(std::span<const std::byte> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

HashPair xxh3_both(std::span<const std::byte> bytes) {
  HashPair hash;
  hash.h64 = kernels().both(bytes.data(), bytes.size(), hash.h128.data());
  return hash;
}

struct Xxh3Stream::State {
  XXH3_state_t hash;
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }

Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

Digest128 Xxh3Stream::digest() const { return canonical(XXH3_128bits_digest(&state_->hash)); }

}  // namespace kfdcp
