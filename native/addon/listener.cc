#include "addon/listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "addon/convert.h"
#include "addon/descriptor.h"
#include "addon/threads.h"
#include "core/wire/session_socket.h"
#include "core/wire/wire.h"

namespace kfdcp::addon {

namespace {

Napi::Object to_js(Napi::Env env, std::uint32_t peer, int pid, Message& message) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("peer", peer);
  object.Set("pid", pid);
  object.Set("type", static_cast<std::uint32_t>(message.type));
  Napi::Array args = Napi::Array::New(env, message.args.size());
  for (std::uint32_t i = 0; i < message.args.size(); ++i) {
    // Results may be negative: they are sent as two's complement.
    args[i] =
        Napi::Number::New(env, static_cast<double>(static_cast<std::int64_t>(message.args[i])));
  }
  object.Set("args", args);
  object.Set("body", Napi::Buffer<char>::Copy(env, message.text.data(), message.text.size()));
  Napi::Array fds = Napi::Array::New(env, message.fds.size());
  for (std::uint32_t i = 0; i < message.fds.size(); ++i) {
    fds[i] = Descriptor::wrap(env, std::move(message.fds[i]));
  }
  object.Set("fds", fds);
  return object;
}

}  // namespace

void Listener::init(Napi::Env env, Napi::Object exports) {
  exports.Set("Listener", DefineClass(env, "Listener",
                                      {InstanceMethod<&Listener::reply>("reply"),
                                       InstanceMethod<&Listener::close>("close")}));
}

Listener::Listener(const Napi::CallbackInfo& info) : Napi::ObjectWrap<Listener>(info) {
  const Napi::Env env = info.Env();
  path_ = to_string(info[0], "path");
  if (!info[1].IsFunction()) throw Napi::TypeError::New(env, "onMessage: not a function");
  guarded(env, [&] {
    socket_ = listen_socket(path_);
    wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!wake_) throw io_error("eventfd");
  });
  deliver_ = Napi::ThreadSafeFunction::New(env, info[1].As<Napi::Function>(), "kfd-listener", 0, 1);
  guarded(env, [&] { thread_ = start_thread(deliver_, [this] { run(); }); });
}

Listener::~Listener() { stop(); }

void Listener::stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(wake_.get(), &one, sizeof one);
  thread_.join();
  deliver_.Release();
  ::unlink(path_.c_str());
  socket_ = UniqueFd();
  const std::lock_guard lock(mutex_);
  peers_.clear();  // nobody will answer them: they must not wait for the garbage collector
}

void Listener::run() {
  for (;;) {
    std::vector<pollfd> pollers{{wake_.get(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    std::vector<std::uint32_t> ids;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, peer] : peers_) {
        pollers.push_back({peer.socket.get(), POLLIN, 0});
        ids.push_back(id);
      }
    }
    if (::poll(pollers.data(), pollers.size(), -1) == -1) {
      if (errno == EINTR) continue;
      if (socket_) turn_deaf();  // more peers than RLIMIT_NOFILE, which was lowered, or no memory
      const std::lock_guard lock(mutex_);
      peers_.clear();
      return;
    }
    if (pollers[0].revents != 0) return;
    if (pollers[1].revents != 0) accept_peer();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (pollers[i + 2].revents != 0) receive(ids[i], pollers[i + 2].fd);
    }
  }
}

void Listener::accept_peer() {
  UniqueFd socket(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) turn_deaf();
    return;
  }
  ucred credentials{};
  socklen_t size = sizeof credentials;
  // Only root can enter the folder. This check holds even if the folder has a wrong mode.
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) == -1 ||
      credentials.uid != 0) {
    return;
  }
  const std::lock_guard lock(mutex_);
  peers_.emplace(next_peer_++, Peer{std::move(socket), credentials.pid});
}

void Listener::turn_deaf() {
  const std::string reason = std::strerror(errno);
  socket_ = UniqueFd();
  deliver_.BlockingCall([reason](Napi::Env env, Napi::Function on_message) {
    Napi::Object object = Napi::Object::New(env);
    object.Set("peer", 0);
    object.Set("pid", 0);
    object.Set("closed", true);
    object.Set("deaf", reason);
    on_message.Call({object});
  });
}

void Listener::receive(std::uint32_t id, int fd) {
  std::shared_ptr<Message> message;
  std::string reason;
  try {
    if (std::optional<Message> got = receive_message(fd)) {
      message = std::make_shared<Message>(std::move(*got));
    }
  } catch (const std::exception& error) {
    reason = error.what();
  }
  int pid = 0;
  {
    const std::lock_guard lock(mutex_);
    pid = peers_.at(id).pid;
    if (!message) peers_.erase(id);
  }
  deliver_.BlockingCall([=](Napi::Env env, Napi::Function on_message) {
    Napi::Object object = Napi::Object::New(env);
    if (message) {
      object = to_js(env, id, pid, *message);
    } else {
      object.Set("peer", id);
      object.Set("pid", pid);
      object.Set("closed", true);
      if (!reason.empty()) object.Set("reason", reason);
    }
    on_message.Call({object});
  });
}

void Listener::reply(const Napi::CallbackInfo& info) {
  const std::uint32_t id = to_uint32(info[0], "peer");
  const auto type = static_cast<MessageType>(to_uint32(info[1], "type"));
  std::array<std::uint64_t, 4> args{};
  const auto values = info[2].As<Napi::Array>();
  for (std::uint32_t i = 0; i < values.Length() && i < args.size(); ++i) {
    args[i] = to_uint64(values.Get(i), "args");
  }
  const std::string text = to_string(info[3], "text");
  std::vector<int> fds;
  const auto descriptors = info[4].As<Napi::Array>();
  for (std::uint32_t i = 0; i < descriptors.Length(); ++i) {
    fds.push_back(Descriptor::number(descriptors.Get(i), "fds"));
  }
  guarded(info.Env(), [&] {
    const std::lock_guard lock(mutex_);
    const auto peer = peers_.find(id);
    if (peer == peers_.end()) throw Error(ErrorCode::io, "session socket: the peer is gone", EPIPE);
    send_message(peer->second.socket.get(), type, args, text, fds);
  });
}

void Listener::close(const Napi::CallbackInfo&) { stop(); }

}  // namespace kfdcp::addon
