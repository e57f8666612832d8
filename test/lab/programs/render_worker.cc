// A program that uses a render node and no KFD, as a graphics or video program does, with a child
// that shares BOs with it.
// usage: render-worker NODE [CONTROL_DIR] (/ctl); commands: verify, status, busy, orphan (a dma-buf
// whose BO nobody has), forget (closes it), exit.
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

#include "core/os/error.h"
#include "mailbox.h"
#include "pattern.h"
#include "peer.h"
#include "render_objects.h"
#include "render_share.h"
#include "stop.h"

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3 || argv[1][0] == '-') {
    std::fprintf(stderr, "usage: render-worker NODE [CONTROL_DIR]\n");
    return 2;
  }
  try {
    lab::install_stop_handlers();
    const std::string dir = argc > 2 ? argv[2] : "/ctl";
    const lab::Mailbox mailbox(dir, dir + "/status");
    const lab::Pattern pattern(7);
    const lab::Peer peer(
        [&](int socket, kfdcp::UniqueFd place) {
          return lab::run_render_peer(socket, std::move(place), argv[1], pattern);
        },
        std::chrono::seconds(20));
    lab::RenderShare share(argv[1], pattern, peer);
    lab::RenderObjects objects(argv[1], pattern);
    kfdcp::UniqueFd orphan;
    mailbox.announce("ready pid=" + std::to_string(getpid()) + " holds=render-worker");
    lab::serve(
        mailbox,
        [&](const lab::Command& command) -> std::string {
          if (command.verb == "exit") return "exiting";
          if (command.verb == "status") return "running";
          if (command.verb == "verify") {
            share.check();
            return "verified" + objects.verify();
          }
          if (command.verb == "orphan") {
            orphan = lab::orphan_dmabuf(argv[1]);
            return "orphan";
          }
          if (command.verb == "forget") {
            orphan = {};
            return "forgotten";
          }
          if (command.verb == "busy") {
            objects.start_copies();
            return "busy";
          }
          throw kfdcp::Error(
              kfdcp::ErrorCode::protocol,
              "command \"" + command.verb + "\": use verify, status, busy, orphan, forget or exit");
        },
        [](std::chrono::milliseconds) {});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "render-worker: %s\n", error.what());
    return 1;
  }
  return 0;
}
