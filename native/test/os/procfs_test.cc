// Facts of real processes from /proc, and of KFD from a made-up /sys. Device numbers of /dev/null
// and /dev/zero stand in for a GPU.
#include "core/os/procfs.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include "test/os/child_process.h"
#include "test/os/error_code.h"
#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

constexpr int kMemMajor = 1;  // /dev/null, /dev/zero (Documentation/admin-guide/devices.txt)

const procfs::OpenFile* with_link(const std::vector<procfs::OpenFile>& files,
                                  const std::string& start) {
  const auto found =
      std::ranges::find_if(files, [&](const auto& file) { return file.link.starts_with(start); });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("procfs: only a dma-buf has the inode of one") {
  const UniqueFd memory(::memfd_create("test", MFD_CLOEXEC));
  CHECK(procfs::dmabuf_inode(memory.get()) == std::nullopt);
  CHECK(code_of([] { (void)procfs::dmabuf_inode(-1); }) == ErrorCode::io);
}

TEST_CASE("procfs: the major of kfd is a character device's, by its whole name") {
  const Folder root;
  CHECK(procfs::kfd_major(root.path()) == -1);
  const std::string characters = "Character devices:\n  1 mem\n226 drm\n";
  const auto major_in = [&](const std::string& devices) {
    root.write("proc/devices", devices);
    return procfs::kfd_major(root.path());
  };
  CHECK(major_in(characters + "234 kfd\n\nBlock devices:\n  8 sd\n") == 234);
  CHECK(major_in(characters + "\nBlock devices:\n 99 kfd\n") == -1);
  CHECK(major_in(characters + "233 kfd0\n235 xkfd\n") == -1);
  CHECK(major_in("") == -1);
}

TEST_CASE("procfs: GPUs are topology nodes with an id, KFD processes are directories") {
  const Folder root;
  CHECK(procfs::gpus_by_minor(root.path()).empty());
  const std::string kfd = "sys/class/kfd/kfd/";
  root.write(kfd + "topology/nodes/0/gpu_id", "0\n");
  root.write(kfd + "topology/nodes/1/gpu_id", "51966\n");
  root.write(kfd + "topology/nodes/2/gpu_id", "47806\n");
  root.write(kfd + "topology/nodes/0/properties", "cpu_cores_count 8\ndrm_render_minor 0\n");
  root.write(kfd + "topology/nodes/1/properties",
             "simd_count 416\ndrm_render_minor 129\nhive_id 0\n");
  root.write(kfd + "topology/nodes/2/properties",
             "unique_id 18446744073709551615\ndrm_render_minor 128\n");
  root.write(kfd + "topology/nodes/3/name", "no id\n");
  root.write(kfd + "proc/4711/pasid", "32769\n");
  CHECK(procfs::gpus_by_minor(root.path()) ==
        std::map<std::uint32_t, std::uint32_t>{{128, 47806}, {129, 51966}});
  CHECK(procfs::is_kfd_process(4711, root.path()));
  CHECK_FALSE(procfs::is_kfd_process(471, root.path()));
}

TEST_CASE("procfs: device numbers of KFD and render nodes") {
  const auto kfd = [](mode_t mode, unsigned major) {
    return procfs::is_kfd(mode, ::makedev(major, 0), 234);
  };
  CHECK(kfd(S_IFCHR | 0666, 234));
  CHECK_FALSE(kfd(S_IFBLK, 234));
  CHECK_FALSE(kfd(S_IFREG, 234));
  CHECK_FALSE(kfd(S_IFCHR, 235));
  CHECK_FALSE(procfs::is_kfd(S_IFCHR, ::makedev(0xffffffff, 0), -1));

  const auto render = [](mode_t mode, unsigned major, unsigned minor) {
    return procfs::is_render(mode, ::makedev(major, minor));
  };
  CHECK(render(S_IFCHR | 0666, 226, 128));
  CHECK(render(S_IFCHR, 226, 300));
  CHECK_FALSE(render(S_IFCHR, 226, 127));
  CHECK_FALSE(render(S_IFCHR, 225, 128));
  CHECK_FALSE(render(S_IFBLK, 226, 128));
  CHECK(procfs::is_card(S_IFCHR, ::makedev(226, 0)));
  CHECK_FALSE(procfs::is_card(S_IFCHR, ::makedev(226, 128)));
  CHECK_FALSE(procfs::is_card(S_IFCHR, ::makedev(225, 0)));
}

TEST_CASE("procfs: the tree has children of every thread, and grandchildren, parents first") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const auto report = [&] {
    const int pid = ::getpid();
    [[maybe_unused]] const auto n = ::write(writer.get(), &pid, sizeof pid);
  };
  const Child top([&] {
    fork_sleeper([&] {
      report();
      fork_sleeper(report);
    });
    std::atomic<bool> done = false;
    new std::thread([&] {  // of a thread that stays
      fork_sleeper(report);
      done = true;
      for (;;) ::pause();
    });
    while (!done) ::usleep(1000);
  });
  std::vector<int> expected{top.pid()};
  for (int i = 0; i < 3; ++i) {
    int pid = 0;
    REQUIRE(::read(reader.get(), &pid, sizeof pid) == sizeof pid);
    expected.push_back(pid);
  }
  std::vector<int> tree = procfs::process_tree(top.pid());
  CHECK(tree.front() == top.pid());
  for (std::size_t i = 0; i < tree.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const std::vector<int> below = procfs::process_tree(tree[i]);
      CHECK(std::ranges::find(below, tree[j]) == below.end());
    }
  }
  std::ranges::sort(tree);
  std::ranges::sort(expected);
  CHECK(tree == expected);
}

TEST_CASE("procfs: a process that is not there has no tree but itself, no files, and no pid") {
  Child gone;
  const int pid = gone.pid();
  gone.end();
  CHECK(procfs::process_tree(pid) == std::vector<int>{pid});
  CHECK(procfs::open_files(pid).empty());
  CHECK(procfs::comm(pid).empty());
  CHECK(code_of([&] { procfs::ns_pid(pid); }) == ErrorCode::io);
  CHECK(code_of([&] { procfs::open_pidfd(pid); }) == ErrorCode::io);
}

TEST_CASE("procfs: a zombie has no files, and that is no error") {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) == 0);
  CHECK_NOTHROW(CHECK(procfs::open_files(pid).empty()));
  CHECK_NOTHROW(procfs::process_tree(pid));
  CHECK(procfs::ns_pid(pid) == static_cast<std::uint32_t>(pid));
  CHECK(procfs::namespace_of(pid, "user") == procfs::namespace_of(::getpid(), "user"));
  CHECK(procfs::gpu_vmas(pid, kMemMajor).devices.empty());
  ::waitpid(pid, nullptr, 0);
}

TEST_CASE("procfs: the innermost pid of a process in a pid namespace of its own") {
  const Child same;
  CHECK(procfs::ns_pid(same.pid()) == static_cast<std::uint32_t>(same.pid()));
  const Child outer([] {
    if (::unshare(CLONE_NEWPID) == -1) ::_exit(1);
    fork_sleeper();
  });
  const std::vector<int> tree = procfs::process_tree(outer.pid());
  REQUIRE(tree.size() == 2);
  CHECK(tree[1] != 1);
  CHECK(procfs::ns_pid(tree[1]) == 1);
}

TEST_CASE("procfs: name and namespaces") {
  const Child child([] { ::prctl(PR_SET_NAME, "a (b) c\td"); });
  CHECK(procfs::comm(child.pid()) == "a (b) c?d");
  CHECK(procfs::namespace_of(child.pid(), "user") == procfs::namespace_of(::getpid(), "user"));
  CHECK(procfs::namespace_of(child.pid(), "user").starts_with("user:["));
  const Child other([] {
    if (::unshare(CLONE_NEWUSER) == -1) ::_exit(1);
  });
  CHECK(procfs::namespace_of(other.pid(), "user") != procfs::namespace_of(::getpid(), "user"));
}

TEST_CASE("procfs: open files of another process, with kind, device, inode and link") {
  const UniqueFd shared(::memfd_create("seen-by-both", MFD_CLOEXEC));
  const Child child([] { ::open("/dev/null", O_RDWR); });
  const std::vector<procfs::OpenFile> files = procfs::open_files(child.pid());
  const procfs::OpenFile* memfd = with_link(files, "/memfd:seen-by-both");
  const procfs::OpenFile* null = with_link(files, "/dev/null");
  REQUIRE(memfd != nullptr);
  REQUIRE(null != nullptr);
  struct stat info {};
  REQUIRE(::fstat(shared.get(), &info) == 0);
  CHECK(memfd->fd == shared.get());
  CHECK(memfd->inode == info.st_ino);
  CHECK(S_ISREG(memfd->mode));
  CHECK(S_ISCHR(null->mode));
  CHECK(null->rdev == ::makedev(kMemMajor, 3));
  CHECK(procfs::is_kfd(null->mode, null->rdev, kMemMajor));
}

TEST_CASE("procfs: a copied descriptor is the same file; an equal one opened again is not") {
  const UniqueFd mine(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd again(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd copy(::fcntl(mine.get(), F_DUPFD_CLOEXEC, 0));
  CHECK(procfs::same_file(mine.get(), copy.get()));
  CHECK_FALSE(procfs::same_file(mine.get(), again.get()));
  CHECK(code_of([&] { procfs::same_file(mine.get(), 1 << 20); }) == ErrorCode::io);

  const Child child;  // inherits all three
  const UniqueFd pidfd = procfs::open_pidfd(child.pid());
  const UniqueFd theirs = procfs::copy_descriptor(pidfd.get(), mine.get());
  CHECK(procfs::same_file(mine.get(), theirs.get()));
  CHECK_FALSE(procfs::same_file(again.get(), theirs.get()));
  CHECK((::fcntl(theirs.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(code_of([&] { procfs::copy_descriptor(pidfd.get(), 1 << 20); }) == ErrorCode::io);
}

TEST_CASE("procfs: device mappings are found by the node they came from, wherever it lies") {
  const Folder elsewhere;
  const std::string node = elsewhere.path() + "/a node";
  REQUIRE(::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(kMemMajor, 5)) == 0);
  const Child child([&] {
    const int file = ::memfd_create("ordinary", 0);
    if (::ftruncate(file, 1 << 16) == -1) ::_exit(1);
    ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, file, 0);
    // A private mapping of /dev/zero keeps its file, as a mapping of a GPU does.
    const auto map = [](const char* path, std::size_t size, off_t offset) {
      ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, ::open(path, O_RDONLY), offset);
    };
    map("/dev/zero", 4096, 0x5000);
    map(node.c_str(), 8192, 0x3000);
  });
  std::vector<procfs::DeviceVma> vmas = procfs::gpu_vmas(child.pid(), kMemMajor).devices;
  CHECK(std::ranges::is_sorted(vmas, {}, &procfs::DeviceVma::start));
  std::ranges::sort(vmas, {}, &procfs::DeviceVma::pgoff);
  REQUIRE(vmas.size() == 2);
  CHECK(vmas[0].pgoff == 0x3000);
  CHECK(vmas[0].end - vmas[0].start == 8192);
  CHECK(vmas[1].pgoff == 0x5000);
  CHECK(vmas[1].end - vmas[1].start == 4096);
  for (const procfs::DeviceVma& vma : vmas) CHECK_FALSE(vma.render_minor);
  CHECK(procfs::gpu_vmas(child.pid(), 251).devices.empty());
  CHECK(procfs::gpu_vmas(child.pid(), -1).devices.empty());
}

}  // namespace kfdcp::test
