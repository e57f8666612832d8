#include "core/pages/pages_sink.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/os/direct_file.h"
#include "core/os/error.h"

namespace kfdcp {
namespace {

constexpr char kSubject[] = "pages file";

class FileSink final : public PagesSink {
 public:
  explicit FileSink(int fd) : file_(fd, O_RDWR) {}
  void write(std::span<iovec> parts, std::uint64_t offset) override {
    file_.write(parts, offset, kSubject);
  }
  std::uint64_t direct_bytes() const override { return file_.direct_bytes(); }

 private:
  DirectFile file_;
};

}  // namespace

std::unique_ptr<PagesSink> file_sink(int fd) {
  struct stat st;
  if (::fstat(fd, &st) != 0) throw io_error(kSubject);
  if (!S_ISREG(st.st_mode) || st.st_size != 0) {
    throw Error(ErrorCode::protocol, std::string(kSubject) + ": not an empty regular file");
  }
  return std::make_unique<FileSink>(fd);
}

}  // namespace kfdcp
