// Messages between a session and the CRIU plugin or the launcher: one SOCK_SEQPACKET packet each,
// with descriptors beside it. Bulk data travels as a memfd, never in the packet.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "core/os/fd.h"

namespace kfdcp {

/// src/session/plugin/wire.ts mirrors these numbers.
enum class MessageType : std::uint32_t {
  ok = 1,       // answer; args as the request says
  error = 2,    // answer; text is the reason
  working = 3,  // the answer is still to come: sent again and again while the session works on it

  stage = 10,  // launcher: text = CRIU script action; answered when the stage may continue

  dump_refused = 20,  // args: 0, 1 = a fault of the plugin's; text; pauses are undone
  dump_pause = 21,    // args: ordinal, pid; text: comm; fds: pidfd, then, if it has one, a kfd
                      // file: a pause comes next
  dump_buffers = 22,  // args: ordinal; body: u32 BO indices; fds: their dma-bufs, same order
  dump_begin = 23,  // args: number of processes, 1 = they may continue before the image is sealed;
                    // answered once draining has begun; answer text: the session's log
  dump_file = 24,   // args: CRIU file id, FileKind (kfd or render), process ordinal,
                    // number of the file (render nodes); for a dma-buf: CRIU file id, FileKind,
                    // inode
  dump_end = 25,    // args: CRIU result, final state; answer args[0]: 1 = stay paused, 2 = the
                    // processes may continue before the image is sealed. dump_result follows
  dump_state = 26,  // args: ordinal; fds: state memfd
  dump_unpaused = 27,  // the plugin undid its pauses; answered, so the session knows in time
  dump_render = 28,    // args: process ordinal, number of the file in the tree, minor, 1 = carries
                       // KFD's memory; fds: memfd of the render state, if it holds any
  dump_dmabuf = 29,    // args: inode, pid, descriptor; text: comm. Comes before dump_begin
  dump_result = 40,    // args: CRIU's exit status, when it has let the processes go; answered when
                       // the image is sealed, which may take as long as writing all contents, or is
                       // removed
  dump_surveyed = 41,  // args: pid of a process that will be paused; comes before every pause;
                       // answer text: what the session knows against it, in the words of a refusal

  open_file = 30,  // args: CRIU file id, pid in its own namespace; answer args: FileKind, ordinal,
                   // then for render nodes gpu_id and which file of it; answer fds: the state
                   // memfd, for kfd unless there is no state and for drm. For a dma-buf: answer
                   // fds: it; or none: then args: FileKind, CRIU file id of a file of the task that
                   // has to be opened before
  restore_buffers = 31,  // args: ordinal; body: u32 BO indices; fds: new dma-bufs
  restored = 32,     // args: ordinal, 0 = /dev/kfd is open again and held nothing, 1 = all BOs of
                     // the process are there; answered when the session has what it needs;
                     // answer text: the session's log
  render_file = 33,  // args: ordinal, gpu_id as the process knows it, which: 0 the file that
                     // carries KFD's memory; answer fds: that render file, or none yet: then
                     // text: what to open, answer args: its device number, major and minor
  vmas_mapped = 34,  // args: ordinal, count
  restore_failed = 35,  // args: ordinal, 1 = a fault of the plugin's; text
  render_opened = 36,   // args: ordinal, gpu_id, which; fds: the render file, opened by the task;
                        // answered
  import_buffer = 37,   // args: ordinal, how many came before; answer args: BO index, mmap offset;
                        // answer fds: the dma-buf that takes the BO's place; none: that was all
  render_state = 38,  // args: ordinal, position; answer args: 1, gpu_id, which, index of its first
                      // BO among those of the process; answer fds: its state memfd; or args: 0,
                      // no further one
  shared_bo = 39,     // args: ordinal, BO index; answer fds: the dma-buf of the buffer that this BO
                      // of a render file shares with another process
  restore_end = 42,   // args: CRIU's result, 0: the tasks run; answered

  spare_wanted = 50,  // launcher to a spare session: text = what both must agree on; answered
  spare_begin = 51,  // launcher: the spare session begins. args: 0 = dump, 1 = restore; CRIU's pid;
                     // text: image directory; fds: the pipe that gets "ready" or the reason
};

/// What a CRIU file id stands for. `drm`: a render file of a process whose render states wait for
/// no KFD state.
enum class FileKind : std::uint32_t { none = 0, kfd = 1, render = 2, drm = 3, dmabuf = 4 };

struct Message {
  MessageType type = MessageType::ok;
  std::array<std::uint64_t, 4> args{};
  std::string text;  // UTF-8, or the body of *_buffers
  std::vector<UniqueFd> fds;
};

/// Longest text and most descriptors of one packet (SCM_MAX_FD is 253, include/net/scm.h).
inline constexpr std::size_t kMaxText = 16384;
inline constexpr std::size_t kMaxFds = 250;

/// Sends one message; the descriptors stay the caller's. Text beyond kMaxText bytes is cut off.
/// Throws Error{io}, and Error{protocol} for more than kMaxFds descriptors.
void send_message(int socket, MessageType type, const std::array<std::uint64_t, 4>& args,
                  const std::string& text, const std::vector<int>& fds);

/// Reports a failure to the session in a message of type `type` (dump_refused or restore_failed).
/// Throws nothing: the failure counts, not an error of the report.
void send_failure(int socket, MessageType type, std::uint64_t ordinal,
                  const std::exception& error) noexcept;

/// Receives one message; nullopt at end of stream. Descriptors arrive close-on-exec. A packet that
/// breaks the contract is Error{protocol}; its descriptors are closed.
std::optional<Message> receive_message(int socket);

/// Waits up to `timeout_ms` for a message; Error{io} with ETIMEDOUT when none comes.
Message expect_message(int socket, int timeout_ms);

/// Waits for an answer as long as the session works on it, however long that takes. Error{io} with
/// ETIMEDOUT when nothing has come for `silence_ms`.
Message expect_answer(int socket, int silence_ms);

/// How long a session is silent at most that is neither stopped nor dead: it says every 20 s that
/// it works (src/session/plugin/serve-messages.ts).
inline constexpr int kSilenceMs = 120'000;

/// Sends in as many packets of type `type` as the descriptor limit asks for.
void send_buffers(int socket, MessageType type, std::uint32_t ordinal,
                  const std::vector<std::pair<std::uint32_t, UniqueFd>>& dmabufs);

/// A memfd holding `bytes`, sealed: neither side can change it any more. Throws Error{io}.
UniqueFd make_memfd(const char* name, const void* bytes, std::size_t size);
/// Reads a memfd of at most `limit` bytes, as long as it was when the call began. Throws
/// Error{protocol} when it is larger, shrinks, or is no file.
std::vector<std::byte> read_memfd(int fd, std::size_t limit);

}  // namespace kfdcp
