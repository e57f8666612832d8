// A pages file together with the ones it refers to.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "core/pages.h"

namespace kfdcp {

/// Writes a pages file that refers to no other, with the contents of `chain`: the file itself, then
/// its parent, then that one's parent, to the one that has none. Stored bytes are copied as they
/// are; every frame is verified. `fd` as for PagesWriter. Throws Error{corrupt} for a chain whose
/// roots do not fit or whose frames are not what was saved, Error{io}, Error{cancelled}.
PagesSummary flatten_pages(const std::vector<const PagesReader*>& chain, int fd,
                           std::stop_token stop = {});

}  // namespace kfdcp
