// The session's socket: receives messages with their descriptors on a thread of its own.
#pragma once

#include <napi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "core/os/fd.h"

namespace kfdcp::addon {

/// JS: `new Listener(path, onMessage)`, where onMessage gets
/// `{peer, pid, type, args: number[4], body: Buffer, fds: Descriptor[]}`, or `{peer, closed: true,
/// reason?}` when a peer went away, and `{peer: 0, closed: true, deaf}`, with the reason in
/// `deaf`, when nobody can be accepted any more, for example without descriptors. `reply(peer,
/// type, args, text, fds)` answers; `close()` ends it.
class Listener : public Napi::ObjectWrap<Listener> {
 public:
  static void init(Napi::Env env, Napi::Object exports);
  explicit Listener(const Napi::CallbackInfo& info);
  ~Listener() override;

 private:
  void run();
  void accept_peer();
  /// Closes the listening socket, so that nobody waits in its queue.
  void turn_deaf();
  void receive(std::uint32_t peer, int fd);
  void reply(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);
  void stop();

  struct Peer {
    UniqueFd socket;
    int pid;
  };

  std::string path_;
  UniqueFd socket_;
  UniqueFd wake_;
  Napi::ThreadSafeFunction deliver_;
  std::mutex mutex_;  // guards peers_: the thread adds and removes, JS replies
  std::map<std::uint32_t, Peer> peers_;
  std::uint32_t next_peer_ = 1;
  std::thread thread_;
};

}  // namespace kfdcp::addon
