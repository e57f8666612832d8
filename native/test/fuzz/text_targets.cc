// Packets of the session's socket, and text files of /proc and /sys.
#include <fcntl.h>
#include <sys/socket.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>

#include "core/os/numa.h"
#include "core/os/procfs.h"
#include "core/os/text_file.h"
#include "core/wire/wire.h"
#include "test/fuzz/targets.h"
#include "test/os/folder.h"
#include "test/wire/wire_raw.h"

namespace kfdcp::test {
namespace {

/// The first byte says how many descriptors come along.
void run_wire(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  static const Pair pair = packet_pair();
  static const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::string bytes(reinterpret_cast<const char*>(input.data()) + 1, input.size() - 1);
  if (bytes.size() > 100'000) return;  // more than the kernel takes
  const std::size_t fds = static_cast<std::size_t>(input.front()) % 4;
  send_raw(pair.a.get(), bytes, std::vector<int>(fds, null.get()));
  try {
    const auto message = receive_message(pair.b.get());
    promise(message.has_value(), "a packet is no end");
    promise(message->fds.size() == fds, "every descriptor arrives");
    promise(message->text.size() <= kMaxText, "the text has a limit");
  } catch (const Error& error) {
    promise(error.code == ErrorCode::protocol, "a bad packet is against the protocol");
  }
}

std::vector<Bytes> wire_seeds() {
  RawPacket packet;
  packet.text = "text";
  packet.header.text_bytes = 4;
  packet.header.fds = 1;
  const std::string bytes = '\1' + packet.bytes();
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {Bytes(data, data + bytes.size())};
}

/// The input is several files, with a zero between them.
std::vector<std::string> parts_of(std::span<const std::byte> input, std::size_t count) {
  std::string rest(reinterpret_cast<const char*>(input.data()), input.size());
  std::vector<std::string> parts;
  while (parts.size() + 1 < count) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    parts.push_back(rest.substr(0, end));
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  parts.push_back(rest);
  return parts;
}

void run_sysfs(std::span<const std::byte> input) {
  static const Folder root;
  const auto parts = parts_of(input, 5);
  const std::string kfd = "sys/class/kfd/kfd/topology/nodes/1/";
  root.write("proc/devices", parts[0]);
  root.write(kfd + "gpu_id", parts[1]);
  root.write(kfd + "properties", parts[2]);
  root.write("sys/class/drm/renderD128/device/numa_node", parts[3]);
  root.write("sys/devices/system/node/node0/cpulist", parts[4]);
  root.write("sys/devices/system/node/node1/cpulist", parts[4]);
  root.write("sys/devices/system/node/online", parts[4]);
  try {
    promise(procfs::kfd_major(root.path()) >= -1, "a major is a number");
    promise(procfs::gpus_by_minor(root.path()).size() <= 1, "one GPU at most");
    numa_node_of("/dev/dri/renderD128", root.path() + "/sys");
  } catch (const Error&) {
    // A file that makes no sense has its reason.
  }
}

std::vector<Bytes> sysfs_seeds() {
  const std::string text = std::string("Character devices:\n  1 mem\n234 kfd\n\nBlock devices:\n") +
                           '\0' + "51966\n" + '\0' + "simd_count 416\ndrm_render_minor 128\n" +
                           '\0' + "1\n" + '\0' + "0-3,8\n";
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {Bytes(data, data + text.size())};
}

void run_text(std::span<const std::byte> input) {
  std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  std::size_t lines = 0, taken = 0;
  while (const auto line = take_line(text)) {
    promise(line->find('\n') == std::string_view::npos, "a line has no newline");
    ++lines;
    std::string_view rest = *line;
    taken += line->size();
    while (true) {
      const std::size_t before = rest.size();
      if (take_integer<std::uint32_t>(rest) || take_integer<std::int64_t>(rest)) {
        promise(rest.size() < before, "an integer has digits");
      } else if (take_word(rest).empty()) {
        break;
      }
    }
  }
  promise(taken + lines >= input.size(), "no byte is lost");
}

}  // namespace

std::vector<FuzzTarget> text_targets() {
  return {{"wire", run_wire, nullptr, wire_seeds},
          {"sysfs", run_sysfs, nullptr, sysfs_seeds},
          {"text", run_text, nullptr, sysfs_seeds}};
}

}  // namespace kfdcp::test
