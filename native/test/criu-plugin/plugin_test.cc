// The CRIU plugin as CRIU sees it, in a process without any of CRIU's symbols. The build with
// sanitizers has no plugin: it could not be loaded into CRIU.
#ifndef __SANITIZE_ADDRESS__

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "core/os/fd.h"
#include "core/os/procfs.h"
#include "criu-plugin/abi.h"
#include "test/criu-plugin/elf_file.h"
#include "test/os/child_process.h"
#include "test/os/folder.h"
#include "test/os/open_descriptors.h"

namespace kfdcp::test {
namespace {

std::string plugin_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "criu/kfd_checkpoint.so";
}

/// The plugin as CRIU loads it. It is never unloaded.
class Plugin {
 public:
  Plugin() : library_(::dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE_MESSAGE(library_ != nullptr, ::dlerror());
    descriptor_ = static_cast<criu::Descriptor*>(::dlsym(library_, "CR_PLUGIN_DESC"));
    REQUIRE(descriptor_ != nullptr);
  }
  ~Plugin() { ::dlclose(library_); }

  const criu::Descriptor* operator->() const { return descriptor_; }
  template <class F>
  F* hook(unsigned slot) const {
    return reinterpret_cast<F*>(descriptor_->hooks[slot]);
  }

 private:
  void* library_;
  criu::Descriptor* descriptor_ = nullptr;
};

}  // namespace

TEST_CASE("plugin: needs libc alone and exports no symbol of ours but its descriptor") {
  const ElfFile file(plugin_path());
  for (const std::string& library : file.needed()) {
    const bool of_libc = library.starts_with("libc.so") || library.starts_with("libm.so") ||
                         library.starts_with("ld-linux");
    CHECK_MESSAGE(of_libc, library);
  }
  std::size_t descriptors = 0;
  for (const std::string& name : file.exported()) {
    if (name == "CR_PLUGIN_DESC") ++descriptors;
    // libstdc++ gives what it instantiates from templates default visibility.
    const bool of_std = name.starts_with("_ZSt") || name.starts_with("_ZNSt") ||
                        name.starts_with("_ZNKSt") || name.starts_with("_ZZNSt");
    CHECK_MESSAGE((name == "CR_PLUGIN_DESC" || of_std), name);
  }
  CHECK(descriptors == 1);
}

TEST_CASE("plugin: the descriptor names version 0.2.0, twelve slots, and the hooks we have") {
  const Plugin plugin;
  CHECK(plugin->name == std::string("kfd_checkpoint"));
  CHECK(plugin->version == 0x200);
  CHECK(plugin->max_hooks == 12);
  // enum of criu-plugin.h: DUMP_EXT_FILE 2, RESTORE_EXT_FILE 3, HANDLE_DEVICE_VMA 7,
  // UPDATE_VMA_MAP 8, PAUSE_DEVICES 10, CHECKPOINT_DEVICES 11.
  for (const unsigned slot : {0u, 1u, 4u, 5u, 6u, 9u}) {
    CHECK_MESSAGE(plugin->hooks[slot] == nullptr, slot);
  }
  const ElfFile file(plugin_path());
  const std::pair<unsigned, const char*> hooks[] = {
      {2, "dump_ext_file"},  {3, "restore_ext_file"}, {7, "handle_device_vma"},
      {8, "update_vma_map"}, {10, "pause_devices"},   {11, "checkpoint_devices"}};
  for (const auto& [slot, name] : hooks) {
    Dl_info info{};
    REQUIRE(::dladdr(plugin->hooks[slot], &info) != 0);
    const auto offset =
        static_cast<char*>(plugin->hooks[slot]) - static_cast<char*>(info.dli_fbase);
    const std::string found = file.function_at(static_cast<Elf64_Addr>(offset));
    CHECK_MESSAGE(found.find(name) != std::string::npos, slot << " is " << found);
  }
}

TEST_CASE("plugin: init succeeds and exit is harmless at every stage") {
  for (const int stage :
       std::initializer_list<int>{criu::kDump, criu::kPreDump, criu::kRestore, 99}) {
    const Plugin plugin;
    CHECK(plugin->init(stage) == 0);
    for (const int result : {0, -1}) plugin->exit(stage, result);
  }
}

TEST_CASE("plugin: mappings and files of others are not ours") {
  const Plugin plugin;
  REQUIRE(plugin->init(criu::kDump) == 0);
  auto* device_vma = plugin.hook<int(int, const struct stat*)>(criu::kHandleDeviceVma);
  for (const unsigned major : {1u, 10u, 195u, 226u}) {
    struct stat info {};
    info.st_mode = S_IFCHR | 0666;
    info.st_rdev = ::makedev(major, 3);
    CHECK_MESSAGE(device_vma(3, &info) == -ENOTSUP, major);
  }
  if (procfs::kfd_major() < 0) {  // another driver's render node, then
    struct stat info {};
    info.st_mode = S_IFCHR | 0666;
    info.st_rdev = ::makedev(226, 128);
    CHECK(device_vma(3, &info) == -ENOTSUP);
  }
  auto* dump_file = plugin.hook<int(int, int)>(criu::kDumpExtFile);
  const UniqueFd file(::memfd_create("x", MFD_CLOEXEC));
  CHECK(dump_file(file.get(), 1) == -ENOTSUP);
  CHECK(dump_file(-1, 1) == -ENOTSUP);
}

TEST_CASE("plugin: a tree without a GPU is dumped as if the plugin was not there") {
  const Plugin plugin;
  REQUIRE(plugin->init(criu::kDump) == 0);
  const std::size_t before = open_descriptors();
  CHECK(plugin.hook<int(int)>(criu::kPauseDevices)(::getpid()) == -ENOTSUP);
  CHECK(plugin.hook<int(int)>(criu::kCheckpointDevices)(::getpid()) == 0);
  CHECK(open_descriptors() == before);
  plugin->exit(criu::kDump, 0);
}

TEST_CASE("plugin: a dump looks at its tree once, however many tasks are in it") {
  const Folder folder;
  folder.write("devices", "Character devices:\n  1 kfd\n");  // /dev/null stands in for /dev/kfd
  const Child without([] { close_inherited(); });
  const Child with([] {
    close_inherited();
    if (::open("/dev/null", O_RDWR) == -1) ::_exit(1);
  });
  // CRIU calls the hook for every task, the root first.
  const auto refused = [&](std::initializer_list<int> tasks) {
    const pid_t criu = ::fork();
    if (criu == 0) {
      const std::string devices = folder.path() + "/devices";
      if (::unshare(CLONE_NEWNS) == -1 ||
          ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == -1 ||
          ::mount(devices.c_str(), "/proc/devices", nullptr, MS_BIND, nullptr) == -1) {
        ::_exit(100);
      }
      const Plugin plugin;
      if (plugin->init(criu::kDump) != 0) ::_exit(101);
      auto* checkpoint = plugin.hook<int(int)>(criu::kCheckpointDevices);
      ::_exit(static_cast<int>(std::ranges::count(tasks, -1, checkpoint)));
    }
    int status = 0;
    ::waitpid(criu, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  CHECK(refused({with.pid()}) == 1);  // no session was started for it
  CHECK(refused({without.pid(), with.pid()}) == 0);
}

TEST_CASE("plugin: without an image, files and mappings of a restore are not ours") {
  const Plugin plugin;
  REQUIRE(plugin->init(criu::kRestore) == 0);
  auto* restore_file = plugin.hook<int(int, bool*)>(criu::kRestoreExtFile);
  // CRIU before 4.2 does not pass the second argument: it must not be used.
  CHECK(restore_file(5, nullptr) == -ENOTSUP);
  for (const bool value : {true, false}) {
    bool retry_needed = value;
    CHECK(restore_file(5, &retry_needed) == -ENOTSUP);
    CHECK(retry_needed == value);
  }
  auto* update = plugin.hook<int(const char*, std::uint64_t, std::uint64_t, std::uint64_t*, int*)>(
      criu::kUpdateVmaMap);
  for (const char* path : {"/dev/kfd", "/dev/dri/renderD128", "/dev/zero", ""}) {
    std::uint64_t offset = 7;
    int fd = 8;
    CHECK(update(path, 0x1000, 0, &offset, &fd) == 0);
    CHECK(offset == 7);
    CHECK(fd == 8);
  }
}

}  // namespace kfdcp::test

#endif
