#include "dma.h"

#include <algorithm>

namespace lab {

Dma::Dma(const Runtime& runtime, std::chrono::milliseconds limit)
    : runtime_(runtime),
      limit_(limit),
      staging_(runtime, runtime.host(), kStagingBytes),
      done_(0) {}

std::span<std::byte> Dma::staging(std::size_t size) const { return staging_.bytes().first(size); }

void Dma::copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent,
               std::size_t size, const char* what) {
  done_.store(1);
  check_hsa(
      hsa_amd_memory_async_copy(to, to_agent, from, from_agent, size, 0, nullptr, done_.handle()),
      what);
  done_.wait_done(what, limit_);
}

void Dma::upload(void* vram, std::size_t size) {
  copy(vram, runtime_.gpu(), staging_.bytes().data(), runtime_.cpu(), size, "SDMA copy to VRAM");
}

void Dma::download(const void* vram, std::size_t size) {
  copy(staging_.bytes().data(), runtime_.cpu(), vram, runtime_.gpu(), size, "SDMA copy from VRAM");
}

void Dma::fill(std::span<std::byte> vram, const Pattern& pattern, std::uint32_t buffer) {
  for (std::size_t at = 0; at < vram.size(); at += kStagingBytes) {
    const std::size_t size = std::min(kStagingBytes, vram.size() - at);
    pattern.write(buffer, at, staging(size));
    upload(vram.data() + at, size);
  }
}

void Dma::verify(std::span<const std::byte> vram, const Pattern& pattern, std::uint32_t buffer) {
  const std::string what = "VRAM buffer " + std::to_string(buffer);
  for (std::size_t at = 0; at < vram.size(); at += kStagingBytes) {
    const std::size_t size = std::min(kStagingBytes, vram.size() - at);
    // A copy that silently does nothing must not find the bytes of the copy before it.
    std::ranges::fill(staging(size), std::byte{0xee});
    download(vram.data() + at, size);
    pattern.check(what, buffer, at, staging(size));
  }
}

void VramBuffers::add(const Runtime& runtime, Dma& dma, const Pattern& pattern, std::size_t count,
                      std::size_t size) {
  for (std::size_t i = 0; i < count; ++i) {
    buffers_.emplace_back(runtime, runtime.vram(), size);
    dma.fill(buffers_.back().bytes(), pattern, static_cast<std::uint32_t>(buffers_.size() - 1));
  }
}

void VramBuffers::verify(Dma& dma, const Pattern& pattern) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    dma.verify(buffers_[i].bytes(), pattern, static_cast<std::uint32_t>(i));
  }
}

void VramBuffers::spoil(Dma& dma) const {
  const std::span<std::byte> last = buffers_.back().bytes();
  std::byte* middle = last.data() + last.size() / 2;
  const auto word = dma.staging(sizeof(std::uint64_t));
  dma.download(middle, word.size());
  word[0] ^= std::byte{1};
  dma.upload(middle, word.size());
}

std::uint64_t VramBuffers::bytes() const {
  std::uint64_t sum = 0;
  for (const PoolBuffer& buffer : buffers_) sum += buffer.bytes().size();
  return sum;
}

}  // namespace lab
