// A dma-buf that is mapped by its descriptor, which is closed again, as the render file is.
#include <sys/mman.h>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "holding.h"
#include "render_gem.h"

namespace lab {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

kfdcp::Mapping map_dmabuf(const std::string& node) {
  const kfdcp::UniqueFd file = open_node(node);
  const kfdcp::UniqueFd dmabuf = export_gem(file, create_gem(file, kBytes));
  void* base = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf.get(), 0);
  if (base == MAP_FAILED) throw kfdcp::io_error("mapping a dma-buf");
  return {base, kBytes};
}

class HeldMapping : public Holding {
 public:
  HeldMapping(const Runtime& runtime, const Pattern& pattern)
      : pattern_(pattern), mapping_(map_dmabuf(runtime.render_node())) {
    pattern_.write(kGemObject, 0, bytes());
  }

  const char* name() const override { return "map-dmabuf"; }
  void check() override { pattern_.check("mapped dma-buf", kGemObject, 0, bytes()); }

 private:
  std::span<std::byte> bytes() const { return mapping_.bytes(); }

  const Pattern& pattern_;
  const kfdcp::Mapping mapping_;
};

}  // namespace

std::unique_ptr<Holding> hold_mapping(const Runtime& runtime, const Pattern& pattern) {
  return std::make_unique<HeldMapping>(runtime, pattern);
}

}  // namespace lab
