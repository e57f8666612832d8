#include "core/drm/render_state.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>

#include "core/kfd/state_file.h"
#include "core/os/error.h"

namespace kfdcp {

namespace {

constexpr std::uint64_t kPageBytes = 4096;  // of the GPU, on every host
constexpr std::uint64_t kMaxHandle = std::numeric_limits<std::int32_t>::max() - 1;

/// docs/image-format.md, "Render state file". Followed by the sections in the order of their counts
/// and by XXH3-64 of all before it.
struct Header {
  StatePrefix prefix;
  std::uint32_t ordinal;
  std::uint32_t num_bos;
  std::uint32_t num_mappings;
  std::uint32_t num_metadata;
  std::uint32_t num_contexts;
  std::uint32_t num_rings;
  std::uint32_t num_bo_lists;
  std::uint32_t bo_bytes;
  std::uint32_t mapping_bytes;
  std::uint32_t metadata_bytes;
  std::uint32_t context_bytes;
  std::uint32_t ring_bytes;
  std::uint32_t bo_list_bytes;
  std::uint8_t reserved[36];
};
static_assert(sizeof(Header) == 128);
static_assert(sizeof(GemBo) == 48);
static_assert(sizeof(GemMapping) == 40);
static_assert(sizeof(GemMetadata) == 280);
static_assert(sizeof(ContextRing) == 24);

constexpr StateKind kKind{
    "render state file", {'D', 'R', 'M', 'S', 'T', 'A', 'T', 'E'}, 1, sizeof(Header)};

/// True when `size` bytes from `offset` are whole pages below `end`.
bool whole_pages_below(std::uint64_t offset, std::uint64_t size, std::uint64_t end) {
  return (offset | size) % kPageBytes == 0 && size != 0 && size <= end && offset <= end - size;
}

const char* bo_fault(const RenderState& state) {
  std::uint64_t last = 0;
  for (const GemBo& bo : state.bos) {
    if (bo.handle <= last || bo.handle > kMaxHandle) return "handles out of order or range";
    if (bo.size == 0 || bo.size % kPageBytes != 0) return "BO not of whole pages";
    if (bo.size > kMaxBoBytes) return "BO larger than any memory";
    if (bo.mmap_offset % kPageBytes != 0) return "offset of a BO not of whole pages";
    last = bo.handle;
  }
  return nullptr;
}

const char* mapping_fault(const RenderState& state) {
  std::uint64_t end = 0;
  for (const GemMapping& mapping : state.mappings) {
    if (mapping.bo >= state.bos.size()) return "mapping of a BO that is not there";
    if (mapping.reserved != 0) return "unknown flag of a mapping";
    if (mapping.flags > std::numeric_limits<std::uint32_t>::max()) return "bad flags of a mapping";
    if (!whole_pages_below(mapping.offset, mapping.size, state.bos[mapping.bo].size)) {
      return "mapping sticks out of its BO";
    }
    if (!whole_pages_below(mapping.address, mapping.size,
                           std::numeric_limits<std::uint64_t>::max())) {
      return "mapping at a bad address";
    }
    if (mapping.address < end) return "mappings overlap or are out of order";
    end = mapping.address + mapping.size;
  }
  std::uint64_t next = 0;
  for (const GemMetadata& metadata : state.metadata) {
    if (metadata.bo < next || metadata.bo >= state.bos.size()) return "metadata of no BO";
    if (metadata.bytes > sizeof(metadata.data)) return "metadata too long";
    next = metadata.bo + std::uint64_t{1};
  }
  return nullptr;
}

auto place(const ContextRing& ring) {
  return std::tie(ring.context, ring.ip, ring.instance, ring.ring);
}

const char* context_fault(const RenderState& state) {
  std::uint32_t last = 0;
  for (const std::uint32_t id : state.contexts) {
    if (id <= last || id >= kContextIds) return "contexts out of order or range";
    last = id;
  }
  const ContextRing* before = nullptr;
  for (const ContextRing& ring : state.rings) {
    if (!std::ranges::binary_search(state.contexts, ring.context)) return "ring of no context";
    if (before != nullptr && place(*before) >= place(ring)) return "rings out of order";
    if (ring.submissions == 0 || ring.submissions > kMaxSubmissions) return "bad submission count";
    before = &ring;
  }
  last = 0;
  for (const std::uint32_t id : state.bo_lists) {
    if (id <= last || id > kMaxBoListId) return "BO lists out of order or range";
    last = id;
  }
  return nullptr;
}

/// Why `state` cannot belong to one render file, or null.
const char* fault(const RenderState& state) {
  if (const char* reason = bo_fault(state)) return reason;
  if (const char* reason = mapping_fault(state)) return reason;
  return context_fault(state);
}

/// The size of the file that `header` describes: 32-bit counts of small records cannot overflow.
std::uint64_t file_bytes(const Header& header) {
  return sizeof(Header) + header.num_bos * std::uint64_t{sizeof(GemBo)} +
         header.num_mappings * std::uint64_t{sizeof(GemMapping)} +
         header.num_metadata * std::uint64_t{sizeof(GemMetadata)} +
         header.num_rings * std::uint64_t{sizeof(ContextRing)} +
         (std::uint64_t{header.num_contexts} + header.num_bo_lists) * sizeof(std::uint32_t) +
         sizeof(std::uint64_t);
}

void check_counts(const Header& header) {
  if (header.bo_bytes != sizeof(GemBo) || header.mapping_bytes != sizeof(GemMapping) ||
      header.metadata_bytes != sizeof(GemMetadata) || header.ring_bytes != sizeof(ContextRing) ||
      header.context_bytes != sizeof(std::uint32_t) ||
      header.bo_list_bytes != sizeof(std::uint32_t)) {
    kKind.corrupt("bad record size");
  }
  if (file_bytes(header) != header.prefix.file_bytes) {
    kKind.corrupt("counts do not add up to its length");
  }
  for (const std::uint32_t n : {header.num_bos, header.num_mappings, header.num_metadata,
                                header.num_contexts, header.num_rings, header.num_bo_lists}) {
    kKind.check_count(n);
  }
}

}  // namespace

std::vector<std::byte> encode_render_state(const RenderState& state) {
  Header header{};
  header.prefix = kKind.prefix();
  header.ordinal = state.ordinal;
  header.num_bos = kKind.count(state.bos.size());
  header.num_mappings = kKind.count(state.mappings.size());
  header.num_metadata = kKind.count(state.metadata.size());
  header.num_contexts = kKind.count(state.contexts.size());
  header.num_rings = kKind.count(state.rings.size());
  header.num_bo_lists = kKind.count(state.bo_lists.size());
  header.bo_bytes = sizeof(GemBo);
  header.mapping_bytes = sizeof(GemMapping);
  header.metadata_bytes = sizeof(GemMetadata);
  header.context_bytes = sizeof(std::uint32_t);
  header.ring_bytes = sizeof(ContextRing);
  header.bo_list_bytes = sizeof(std::uint32_t);
  header.prefix.file_bytes = file_bytes(header);
  if (const char* reason = fault(state)) {
    throw Error(ErrorCode::protocol, std::string("render state file: ") + reason);
  }

  std::vector<std::byte> out(header.prefix.file_bytes);
  std::span<std::byte> rest(out);
  put<Header>(rest, {&header, 1});
  put<GemBo>(rest, state.bos);
  put<GemMapping>(rest, state.mappings);
  put<GemMetadata>(rest, state.metadata);
  put<std::uint32_t>(rest, state.contexts);
  put<ContextRing>(rest, state.rings);
  put<std::uint32_t>(rest, state.bo_lists);
  put_sum(out, rest);
  return out;
}

void check_render_state_head(std::span<const std::byte> head, std::uint64_t bytes) {
  kKind.head<Header>(head, bytes, check_counts);
}

RenderState decode_render_state(std::span<const std::byte> bytes) {
  std::span<const std::byte> rest;
  const auto header = kKind.open<Header>(bytes, rest, check_counts);

  RenderState state;
  state.ordinal = header.ordinal;
  state.bos = take<GemBo>(rest, header.num_bos);
  state.mappings = take<GemMapping>(rest, header.num_mappings);
  state.metadata = take<GemMetadata>(rest, header.num_metadata);
  state.contexts = take<std::uint32_t>(rest, header.num_contexts);
  state.rings = take<ContextRing>(rest, header.num_rings);
  state.bo_lists = take<std::uint32_t>(rest, header.num_bo_lists);
  if (const char* reason = fault(state)) kKind.corrupt(reason);
  return state;
}

}  // namespace kfdcp
