// Holdings that are open files: a dma-buf, a second /dev/kfd, and a child that inherited /dev/kfd.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/os/error.h"
#include "core/os/fd.h"
#include "holding.h"
#include "kfd.h"

namespace lab {
namespace {

using kfdcp::Error;
using kfdcp::ErrorCode;
using kfdcp::io_error;

ino_t inode(const kfdcp::UniqueFd& fd) {
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) throw io_error("dma-buf");
  return info.st_ino;
}

class HeldDmabuf : public Holding {
 public:
  explicit HeldDmabuf(const PoolBuffer& buffer) : buffer_(buffer), fd_(export_dmabuf(buffer)) {}
  const char* name() const override { return "dmabuf"; }

  void check() override {
    const off_t size = lseek(fd_.get(), 0, SEEK_END);
    if (size < 0) throw io_error("dma-buf");
    if (static_cast<std::uint64_t>(size) < buffer_.bytes().size()) {
      throw Error(ErrorCode::corrupt, "dma-buf: its size is " + std::to_string(size) +
                                          ", expected " + std::to_string(buffer_.bytes().size()));
    }
    // A BO has one dma-buf as long as somebody holds it: exporting again must give the same one.
    if (inode(export_dmabuf(buffer_)) != inode(fd_)) {
      throw Error(ErrorCode::corrupt, "dma-buf: it is no longer the one of its buffer");
    }
  }

 private:
  const PoolBuffer& buffer_;
  kfdcp::UniqueFd fd_;
};

class HeldSecondKfd : public Holding {
 public:
  HeldSecondKfd() : fd_(open_kfd()), version_(kfd_version(fd_.get())) {}
  const char* name() const override { return "double-kfd"; }

  void check() override {
    if (kfd_version(fd_.get()) != version_) {
      throw Error(ErrorCode::corrupt, "second /dev/kfd: its version changed");
    }
  }

 private:
  kfdcp::UniqueFd fd_;
  std::string version_;
};

bool holds_kfd(pid_t pid) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone) == "/dev/kfd") return true;
  }
  return false;
}

/// Of the dma-bufs that `pid` has open.
std::vector<ino_t> dmabufs_of(pid_t pid) {
  std::vector<ino_t> inodes;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const auto link = std::filesystem::read_symlink(entry.path(), gone).native();
    struct stat info {};
    if (link.starts_with("/dmabuf:") && stat(entry.path().c_str(), &info) == 0) {
      inodes.push_back(info.st_ino);
    }
  }
  std::ranges::sort(inodes);
  return inodes;
}

class HeldFork : public Holding {
 public:
  HeldFork() : child_(fork()) {
    if (child_ < 0) throw io_error("fork");
    if (child_ > 0) return;
    // Only async-signal-safe calls here: the other threads of the parent do not exist in the child.
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }

  ~HeldFork() override {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

  const char* name() const override { return "fork-holder"; }

  void check() override {
    int status = 0;
    if (waitpid(child_, &status, WNOHANG) != 0) {
      throw Error(ErrorCode::corrupt, "forked child: it is gone");
    }
    if (!holds_kfd(child_)) throw Error(ErrorCode::corrupt, "forked child: /dev/kfd is not open");
    if (dmabufs_of(child_) != dmabufs_of(getpid())) {
      throw Error(ErrorCode::corrupt, "forked child: it has other dma-bufs open");
    }
  }

 private:
  const pid_t child_;
};

}  // namespace

std::unique_ptr<Holding> hold_dmabuf(const PoolBuffer& buffer) {
  return std::make_unique<HeldDmabuf>(buffer);
}

std::unique_ptr<Holding> hold_second_kfd() { return std::make_unique<HeldSecondKfd>(); }

std::unique_ptr<Holding> hold_fork() { return std::make_unique<HeldFork>(); }

}  // namespace lab
