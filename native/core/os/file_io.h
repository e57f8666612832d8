// Whole reads and writes at an offset of a file.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kfdcp {

/// Fills `out` from `offset` (bytes) of `fd`. Throws Error{io} for a failed call, Error{corrupt}
/// when the file ends first; `subject` starts the message.
void read_exactly(int fd, std::span<std::byte> out, std::uint64_t offset, const char* subject);

/// What is left of `parts`, which together have `bytes` bytes at least, without the first of them;
/// it does not begin with an empty part.
std::span<iovec> without_first(std::span<iovec> parts, std::size_t bytes);

/// Writes all of `parts`, in order, at `offset` (bytes) of `fd`; uses `parts` up. Throws Error{io}.
void write_exactly(int fd, std::span<iovec> parts, std::uint64_t offset, const char* subject);

/// `bytes` as one part of a gathering write.
iovec write_part(std::span<const std::byte> bytes);

}  // namespace kfdcp
