// send_files SOCKET FILE...: what a plugin does with dma-bufs. Opens the files for reading and
// writing and sends them to the session that listens at SOCKET, numbered from 0 as the buffers of
// process 0. Exits 0 when all were sent, 1 on an error, 2 on wrong usage.
#include <fcntl.h>

#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "core/os/error.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"

namespace {

using namespace kfdcp;

void send_files(const char* socket, int count, char** paths) {
  std::vector<std::pair<std::uint32_t, UniqueFd>> files;
  for (int i = 0; i < count; ++i) {
    UniqueFd file(::open(paths[i], O_RDWR | O_CLOEXEC));
    if (!file) throw io_error(paths[i]);
    files.emplace_back(static_cast<std::uint32_t>(i), std::move(file));
  }
  const UniqueFd peer = connect_socket(socket);
  send_buffers(peer.get(), MessageType::dump_buffers, 0, files);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: send_files SOCKET FILE...\n");
    return 2;
  }
  try {
    send_files(argv[1], argc - 2, argv + 2);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "send_files: %s\n", error.what());
    return 1;
  }
  return 0;
}
