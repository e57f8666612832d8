// Facts of real processes. /dev/null stands in for /dev/kfd, by a made-up /proc/devices; a node
// with a render node's number is opened as a path, since no driver is behind it.
#include "core/survey/survey.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "core/os/procfs.h"
#include "test/os/child_process.h"
#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

constexpr char kDevices[] = "Character devices:\n  1 kfd\n\nBlock devices:\n";

void keep_open(const std::string& path, int flags) {
  if (::open(path.c_str(), flags) == -1) ::_exit(1);
}

UniqueFd open_ring() {
  io_uring_params params{};
  return UniqueFd(static_cast<int>(::syscall(SYS_io_uring_setup, 1, &params)));
}

/// KFD of `host` has these processes.
void list_in_kfd(const Folder& host, int pid) {
  host.write("sys/class/kfd/kfd/proc/" + std::to_string(pid) + "/pasid", "1\n");
}

}  // namespace

TEST_CASE("survey: a host without KFD has nothing to save, whatever its processes hold") {
  const Folder host;
  const std::string node = host.path() + "/render";  // another driver's
  REQUIRE(::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(226, 128)) == 0);
  const Child child([&] {
    keep_open("/dev/null", O_RDWR);
    keep_open(node, O_PATH);
  });
  const Survey survey = survey_tree(child.pid(), host.path());
  CHECK(survey.processes.empty());
  CHECK(survey.refusals.empty());
  CHECK_FALSE(holds_gpu(child.pid(), host.path()));
}

TEST_CASE("survey: the owner's files come with it, each struct file once") {
  const Folder host;
  host.write("proc/devices", kDevices);
  const Child child([] {
    close_inherited();
    keep_open("/dev/zero", O_RDWR | O_PATH);  // same major: a second file of "KFD"
    const int kfd = ::open("/dev/null", O_RDWR);
    if (::dup(kfd) == -1) ::_exit(1);
    fork_sleeper();
  });
  list_in_kfd(host, child.pid());
  CHECK(holds_gpu(child.pid(), host.path()));
  const Survey survey = survey_tree(child.pid(), host.path());
  for (const std::string& reason : survey.refusals) INFO(reason);
  CHECK(survey.refusals.empty());
  REQUIRE(survey.processes.size() == 1);
  const GpuProcess& process = survey.processes[0];
  CHECK(process.pid == child.pid());
  CHECK(process.pidfd);
  CHECK(process.kfd_files.size() == 2);
  CHECK(process.render_files.empty());
}

TEST_CASE("survey: rings of io_uring, open or mapped alone" *
          doctest::description("this kernel gives no io_uring") * doctest::skip(!open_ring())) {
  const Folder host;
  host.write("proc/devices", kDevices);
  bool closed = false;
  SUBCASE("open") {}
  SUBCASE("mapped alone") { closed = true; }
  const Child child([&] {
    close_inherited();
    keep_open("/dev/null", O_RDWR);
    UniqueFd ring = open_ring();
    void* base = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, ring.get(), IORING_OFF_SQ_RING);
    if (base == MAP_FAILED) ::_exit(1);
    if (closed) {
      ring = UniqueFd();
    } else if (::munmap(base, 4096) == -1) {
      ::_exit(1);
    }
    if (ring.release() == 0) ::_exit(1);  // it stays open
  });
  list_in_kfd(host, child.pid());
  const Survey survey = survey_tree(child.pid(), host.path());
  REQUIRE(survey.refusals.size() == 1);
  CHECK(survey.refusals[0].ends_with(" uses io_uring, which CRIU cannot save"));
}

TEST_CASE("survey: facts of a process reach the rules") {
  const Folder host;
  host.write("proc/devices", kDevices);
  const auto only_refusal = [&](const Child& child) {
    const Survey survey = survey_tree(child.pid(), host.path());
    CHECK(survey.processes.empty());
    return survey.refusals.size() == 1 ? survey.refusals[0] : std::string();
  };
  SUBCASE("an inherited /dev/kfd") {
    const Child child([] {
      close_inherited();
      keep_open("/dev/null", O_RDWR);
    });
    CHECK(only_refusal(child).find("of a process outside the container") != std::string::npos);
  }
  SUBCASE("a closed /dev/kfd") {
    const Child child([] { close_inherited(); });
    CHECK_FALSE(holds_gpu(child.pid(), host.path()));
    list_in_kfd(host, child.pid());
    CHECK(holds_gpu(child.pid(), host.path()));
    CHECK(only_refusal(child).find("closed its /dev/kfd") != std::string::npos);
  }
  SUBCASE("a mapping without a descriptor") {
    const Child child([] {
      close_inherited();
      const int zero = ::open("/dev/zero", O_RDWR);
      ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, zero, 0);
      ::close(zero);
    });
    CHECK(only_refusal(child).find("maps GPU memory") != std::string::npos);
  }
  SUBCASE("a card node, beside /dev/kfd or alone") {
    const std::string node = host.path() + "/card";
    REQUIRE(::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(226, 1)) == 0);
    const Child child([&] {
      close_inherited();
      const int card = ::open(node.c_str(), O_PATH);
      if (::dup2(card, 77) == -1) ::_exit(1);
      ::close(card);
    });
    CHECK(holds_gpu(child.pid(), host.path()));
    CHECK(only_refusal(child) == "pid " + std::to_string(child.pid()) + " (" +
                                     procfs::comm(child.pid()) +
                                     ") holds card1 open as descriptor 77: CRIU cannot save a card "
                                     "node, only its render node");
  }
  SUBCASE("a render node of another driver") {
    const std::string node = host.path() + "/render";
    REQUIRE(::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(226, 128)) == 0);
    const Child child([&] {
      close_inherited();
      const int render = ::open(node.c_str(), O_PATH);
      if (::dup2(render, 77) == -1) ::_exit(1);
      ::close(render);
    });
    CHECK(holds_gpu(child.pid(), host.path()));
    CHECK(only_refusal(child) == "pid " + std::to_string(child.pid()) + " (" +
                                     procfs::comm(child.pid()) +
                                     "): descriptor 77 (renderD128): it is none of KFD's GPUs");
  }
}

TEST_CASE("survey: objects of a render file that does not answer count as there") {
  const Folder host;
  host.write("proc/devices", kDevices);
  host.write("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "4711\n");
  host.write("sys/class/kfd/kfd/topology/nodes/1/properties", "drm_render_minor 128\n");
  host.write("dev/dri/by-path/note", "");
  const std::string node = host.path() + "/dev/dri/by-path/any-name";
  REQUIRE(::mknod(node.c_str(), S_IFCHR | 0600, ::makedev(226, 128)) == 0);
  const Child child([&] {
    close_inherited();
    keep_open("/dev/null", O_RDWR);
    keep_open(node, O_PATH);
    if (::chroot(host.path().c_str()) == -1) ::_exit(1);
  });
  list_in_kfd(host, child.pid());
  const Survey survey = survey_tree(child.pid(), host.path());
  REQUIRE(survey.processes.size() == 1);
  REQUIRE(survey.processes[0].render_files.size() == 1);
  CHECK(survey.processes[0].render_files[0].minor == 128);
  REQUIRE(survey.refusals.size() == 1);
  CHECK(survey.refusals[0].find("GEM_LIST_HANDLES: Bad file descriptor") != std::string::npos);
  REQUIRE(::unlink(node.c_str()) == 0);
  const std::vector<std::string> without = survey_tree(child.pid(), host.path()).refusals;
  REQUIRE(without.size() == 2);
  CHECK(without[1] == "pid " + std::to_string(child.pid()) + " (" + procfs::comm(child.pid()) +
                          ") uses renderD128, and the container's /dev has no node of that GPU: a "
                          "restore could not open it");
}

}  // namespace kfdcp::test
