// A made-up sysfs, and files of this process that stand in for render files: their fdinfo has no
// PASID, so the number of the KFD process is compared with nothing.
#include "core/survey/unacquired_vms.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include "test/os/folder.h"

namespace kfdcp::test {
namespace {

/// A host with GPUs 11 and 22, of which its process may see both.
struct Host {
  Folder folder;
  GpuProcess process;

  Host() {
    process.pid = ::getpid();
    add_gpu(1, 11, 128);
    add_gpu(2, 22, 129);
    use_vram(11, 4096);
    use_vram(22, 0);
  }

  void add_gpu(int node, int gpu_id, int minor) const {
    const std::string path = "sys/class/kfd/kfd/topology/nodes/" + std::to_string(node);
    folder.write(path + "/gpu_id", std::to_string(gpu_id) + "\n");
    folder.write(path + "/properties", "drm_render_minor " + std::to_string(minor) + "\n");
  }

  void use_vram(int gpu_id, int bytes) const {
    folder.write(
        "sys/class/kfd/kfd/proc/" + std::to_string(process.pid) + "/vram_" + std::to_string(gpu_id),
        std::to_string(bytes) + "\n");
  }

  void open_render(std::uint32_t minor, std::uint32_t gpu_id) {
    GpuProcess::RenderFile render{};
    render.file = UniqueFd(::open("/dev/null", O_RDWR));
    render.minor = minor;
    render.gpu_id = gpu_id;
    process.render_files.push_back(std::move(render));
  }
};

}  // namespace

TEST_CASE("unacquired VMs: a visible GPU without VRAM in use and without a render file") {
  Host host;
  CHECK(unacquired_vms(host.process, host.folder.path()) == std::vector<std::uint32_t>{22});
  SUBCASE("the render file of another GPU does not count") {
    host.open_render(128, 11);
    CHECK(unacquired_vms(host.process, host.folder.path()) == std::vector<std::uint32_t>{22});
  }
  SUBCASE("its own render file does") {
    host.open_render(129, 22);
    CHECK(unacquired_vms(host.process, host.folder.path()).empty());
  }
  SUBCASE("so does VRAM in use, when the file is closed") {
    host.use_vram(22, 4096);
    CHECK(unacquired_vms(host.process, host.folder.path()).empty());
  }
}

TEST_CASE("unacquired VMs: a GPU that the process cannot see is none") {
  Host host;
  host.add_gpu(3, 33, 130);
  host.open_render(129, 22);
  CHECK(unacquired_vms(host.process, host.folder.path()).empty());
}

}  // namespace kfdcp::test
