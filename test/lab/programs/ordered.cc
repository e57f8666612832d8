#include "ordered.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>

#include "core/os/error.h"

namespace lab {
namespace {

using kfdcp::io_error;

constexpr std::size_t kPage = KFDSIM_STEP_BYTES;  // an increment of less is never stopped half-way
constexpr std::size_t kPlaceBytes = 2 * kPage;
constexpr std::size_t kGivenAt = 12;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::uint64_t kMagic = 0x524544524f44464b;  // "KFDORDER"
constexpr std::uint32_t kStepUs = 5000;
constexpr std::uint32_t kPackets = 1024;  // five seconds of them
constexpr char kShmFile[] = "/dev/shm/kfd-ordered";

kfdcp::Mapping map_pages(int flags, int fd) {
  void* base = mmap(nullptr, kPlaceBytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (base == MAP_FAILED) throw io_error("mapping counters");
  return {base, kPlaceBytes};
}

kfdcp::Mapping shm_file(bool named) {
  const kfdcp::UniqueFd fd(open(kShmFile, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || ftruncate(fd.get(), kPlaceBytes) != 0) throw io_error(kShmFile);
  if (!named) unlink(kShmFile);
  return map_pages(MAP_SHARED, fd.get());
}

}  // namespace

Ordered::Ordered(const BareGpu& gpu, std::chrono::milliseconds limit)
    : limit_(limit), queue_(gpu, {kPackets}), arguments_(gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPage) {
  add({gpu, KFD_IOC_ALLOC_MEM_FLAGS_VRAM | KFD_IOC_ALLOC_MEM_FLAGS_PUBLIC, kPlaceBytes});
  add({gpu, KFD_IOC_ALLOC_MEM_FLAGS_GTT, kPlaceBytes});
  user_.push_back(map_pages(MAP_PRIVATE | MAP_ANONYMOUS, -1));
  user_.push_back(shm_file(false));
  user_.push_back(shm_file(true));
  for (const kfdcp::Mapping& pages : user_) add({gpu, pages.bytes()});
  feed();
}

Ordered::~Ordered() { unlink(kShmFile); }

void Ordered::add(BareBuffer buffer) {
  std::memset(buffer.bytes().data(), 0, kPlaceBytes);
  for (std::size_t at = 0; at < kPlaceBytes; at += kPage) {
    const auto place = static_cast<std::uint32_t>(pages_);
    std::memcpy(buffer.bytes().data() + at, &kMagic, sizeof kMagic);
    std::memcpy(buffer.bytes().data() + at + sizeof kMagic, &place, sizeof place);
    const kfdsim_microop_args increment{buffer.address(at + kHeaderBytes), kPage - kHeaderBytes, 1,
                                        kStepUs};
    std::memcpy(arguments_.bytes().data() + pages_++ * sizeof increment, &increment,
                sizeof increment);
  }
  places_.push_back(std::move(buffer));
}

void Ordered::feed() {
  bool fed = false;
  for (; queue_.room() >= pages_; fed = true) {
    for (std::size_t page = 0; page < pages_; ++page) {
      const std::size_t at = page * sizeof(kfdsim_microop_args);
      queue_.dispatch(KFDSIM_OP_INCREMENT, arguments_.address(at), 0);
    }
  }
  if (!fed) return;
  store(*places_.front().words(kGivenAt), static_cast<std::uint32_t>(queue_.written() / pages_));
  queue_.ring_doorbell();
}

std::uint64_t Ordered::rounds() const { return queue_.consumed() / pages_; }

void Ordered::check() {
  wait_until("counters", limit_, [this] { return queue_.drained(); });
  const std::uint64_t expected = queue_.written() / pages_;
  for (std::size_t place = 0; place < places_.size(); ++place) {
    for (std::size_t at = 0; at < kPlaceBytes; at += sizeof(std::uint32_t)) {
      if (at % kPage < kHeaderBytes) continue;
      expect("counters of place " + std::to_string(place), load(*places_[place].words(at)),
             expected);
    }
  }
}

}  // namespace lab
