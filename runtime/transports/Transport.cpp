// SPDX-License-Identifier: Apache-2.0

#include "transports/Transport.h"

namespace fcdp {

void Transport::exchange(std::span<const Send> sends,
                         std::span<const Recv> recvs, const char *what,
                         uint32_t channel) {
  for (const Send &send : sends)
    if (send.peer >= size() || send.peer == rank())
      fail(what, "sending", send.bytes, ~0u, "no such peer in the group");
  for (const Recv &recv : recvs)
    if (recv.peer >= size() || recv.peer == rank())
      fail(what, "receiving", recv.bytes, ~0u, "no such peer in the group");
  for (const Send &send : sends)
    sent[send.peer].fetch_add(send.bytes, std::memory_order_relaxed);
  if (!sends.empty() || !recvs.empty())
    doExchange(sends, recvs, what, channel);
}

uint64_t Transport::bytesSent() const {
  uint64_t bytes = 0;
  for (uint32_t peer = 0; peer < size(); ++peer)
    bytes += bytesSentTo(peer);
  return bytes;
}

void Transport::fail(const char *what, const char *doing, size_t bytes,
                     uint32_t peer, const std::string &text,
                     FailureKind kind) const {
  std::string message = what;
  message += ": rank " + std::to_string(worldRank(rank())) + ": " + doing +
             " " + std::to_string(bytes) + " bytes";
  if (peer < size()) {
    message += doing[0] == 'r' ? " from" : " to";
    message += " rank " + std::to_string(worldRank(peer));
  }
  throw TransportError(message + ": " + text, kind);
}

} // namespace fcdp
