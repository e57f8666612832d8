#include "criu-plugin/request.h"

#include "core/os/error.h"

namespace kfdcp::criu {

Message request(int socket, MessageType type, const std::array<std::uint64_t, 4>& args,
                const std::vector<int>& fds) {
  send_message(socket, type, args, "", fds);
  Message answer = expect_answer(socket, kSilenceMs);
  if (answer.type == MessageType::error) throw Error(ErrorCode::protocol, answer.text);
  return answer;
}

}  // namespace kfdcp::criu
