// Contents that arrive from another host.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/pages/contents_record.h"
#include "core/pages/contents_stream.h"
#include "test/fuzz/targets.h"
#include "test/os/folder.h"
#include "test/os/random_bytes.h"

namespace kfdcp::test {
namespace {

constexpr ReceiveLimits kLimits{.files = 3, .bytes = 1u << 20};

void run_contents(std::span<const std::byte> input) {
  const Folder folder;
  const UniqueFd directory(::open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  refusing([&] {
    const UniqueFd fd = memory_file(input);
    if (::lseek(fd.get(), 0, SEEK_SET) != 0) throw io_error("lseek");
    std::atomic<std::uint64_t> progress = 0;
    const ReceivedContents result =
        receive_contents(fd.get(), directory.get(), kLimits, {}, progress);
    promise(result.bytes < input.size(), "no more arrives than was sent");
    promise(progress == result.bytes, "progress is told to the end");
  });
  std::uint32_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    promise(entry.is_regular_file() && entry.file_size() <= kLimits.bytes, "files have a limit");
  }
  promise(files <= kLimits.files, "the number of files has a limit");
}

/// Each record where the one before it says.
Bytes resealed_contents(Bytes input) {
  for (std::size_t at = 0; input.size() - at >= sizeof(ContentsRecord);) {
    ContentsRecord record;
    std::memcpy(&record, input.data() + at, sizeof(record));
    record.checksum = record_checksum(record);
    std::memcpy(input.data() + at, &record, sizeof(record));
    at += sizeof(record);
    at += std::min<std::size_t>(record.length, input.size() - at);
  }
  return input;
}

void add(Bytes& stream, const ContentsRecord& record, std::span<const std::byte> bytes = {}) {
  const auto head = bytes_of(record);
  stream.insert(stream.end(), head.begin(), head.end());
  stream.insert(stream.end(), bytes.begin(), bytes.end());
}

std::vector<Bytes> contents_seeds() {
  const Bytes some = noise(90, 3);
  Bytes empty, one, two;
  add(empty, contents_record(kContentsEnd, 0, 0, 0, 0));
  add(one, contents_record(kContentsPiece, 1, 2, 90, 4096), some);
  add(one, contents_record(kContentsEnd, 0, 0, 1, 90));
  add(two, contents_record(kContentsPiece, 0, 0, 90, 90), some);
  add(two, contents_record(kContentsPiece, 0, 1, 90, 0), some);
  add(two, contents_record(kContentsPiece, 0, 0, 90, 0), some);
  add(two, contents_record(kContentsEnd, 0, 0, 2, 270));
  return {empty, one, two};
}

}  // namespace

std::vector<FuzzTarget> contents_targets() {
  return {{"contents", run_contents, resealed_contents, contents_seeds}};
}

}  // namespace kfdcp::test
