// The blocks of a new pages file, with their checksums.
#pragma once

#include <cstdint>

#include "core/pages/hash.h"
#include "core/pages/pages.h"
#include "core/pages/pages_layout.h"

namespace kfdcp::layout {

/// `parent`: root of the parent, or all 0. `siblings`: other files of the image may be referred to.
Header make_header(const PagesOptions& options, const Digest128& parent, bool siblings);
IndexHeader make_index_header(std::uint32_t buffers, const PagesSummary& summary,
                              std::uint64_t stored_bytes);
FrameRecord make_record(const FrameEntry& frame);
Footer make_footer(std::uint64_t index_offset, const PagesSummary& summary);

}  // namespace kfdcp::layout
