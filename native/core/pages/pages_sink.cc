#include "core/pages/pages_sink.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>
#include <vector>

#include "core/os/direct_file.h"
#include "core/os/error.h"

namespace kfdcp {
namespace {

constexpr char kSubject[] = "pages file";

class FileSink final : public PagesSink {
 public:
  FileSink(int fd, std::uint64_t begin) : file_(fd, O_RDWR), begin_(begin) {}
  void write(std::span<iovec> parts, std::uint64_t offset) override {
    file_.write(parts, begin_ + offset, kSubject);
  }
  std::uint64_t direct_bytes() const override { return file_.direct_bytes(); }

 private:
  DirectFile file_;
  const std::uint64_t begin_;
};

class BothSinks final : public PagesSink {
 public:
  BothSinks(std::unique_ptr<PagesSink> first, std::unique_ptr<PagesSink> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void write(std::span<iovec> parts, std::uint64_t offset) override {
    std::vector<iovec> again(parts.begin(), parts.end());
    first_->write(parts, offset);
    second_->write(again, offset);
  }
  std::uint64_t direct_bytes() const override {
    return first_->direct_bytes() + second_->direct_bytes();
  }

 private:
  const std::unique_ptr<PagesSink> first_;
  const std::unique_ptr<PagesSink> second_;
};

}  // namespace

std::unique_ptr<PagesSink> both_sinks(std::unique_ptr<PagesSink> first,
                                      std::unique_ptr<PagesSink> second) {
  return std::make_unique<BothSinks>(std::move(first), std::move(second));
}

std::unique_ptr<PagesSink> file_sink(int fd, std::uint64_t begin) {
  struct stat st;
  if (::fstat(fd, &st) != 0) throw io_error(kSubject);
  if (!S_ISREG(st.st_mode) || st.st_size != 0) {
    throw Error(ErrorCode::protocol, std::string(kSubject) + ": not an empty regular file");
  }
  return std::make_unique<FileSink>(fd, begin);
}

}  // namespace kfdcp
