// SPDX-License-Identifier: Apache-2.0

#include "cpu/SegmentHandover.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <thread>
#include <vector>

namespace fcdp {
namespace {

using Clock = std::chrono::steady_clock;

/// The message that a rank sends after it has connected.
struct Request {
  uint32_t local;
  uint32_t locals;
  uint64_t bytes;
};

/// The answer. If `failed`, `text` has the reason and no descriptor is
/// attached.
struct Answer {
  bool failed;
  char text[511];
};

[[noreturn]] void fail(const HostSegmentOptions &options,
                       const std::string &text) {
  throw std::runtime_error("host cache of " + std::to_string(options.bytes) +
                           " bytes, local rank " +
                           std::to_string(options.local) + ": " + text);
}

[[noreturn]] void failErrno(const HostSegmentOptions &options,
                            const char *call) {
  fail(options, std::string(call) + ": " + std::strerror(errno));
}

int millisecondsLeft(Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      deadline - Clock::now());
  return left.count() > 0 ? int(left.count()) : 0;
}

Clock::time_point deadlineOf(const HostSegmentOptions &options) {
  return Clock::now() +
         std::chrono::milliseconds(int64_t(options.timeoutSeconds * 1000));
}

FileDescriptor makeSocket(const HostSegmentOptions &options,
                          sockaddr_un &address, socklen_t &length) {
  // SEQPACKET preserves message boundaries and still reports when the peer
  // ends.
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket)
    failErrno(options, "socket");
  std::string name = "fcdp-" + options.name;
  address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof(address.sun_path))
    fail(options, "the segment's name '" + options.name + "' is too long");
  // A leading zero byte makes the name abstract.
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return socket;
}

void setTimeout(const FileDescriptor &socket, Clock::time_point deadline) {
  int left = std::max(millisecondsLeft(deadline), 1);
  timeval time{left / 1000, (left % 1000) * 1000};
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

/// Returns whether the peer is a process of the same user. Abstract names have
/// no permissions, so any process on the machine may connect.
bool isSameUser(const FileDescriptor &socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) ==
             0 &&
         peer.uid == geteuid();
}

void sendAnswer(const FileDescriptor &socket, const Answer &answer, int fd) {
  iovec part{const_cast<Answer *>(&answer), sizeof(answer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  }
  // If the peer has ended in the meantime, the job's monitor reports it.
  (void)sendmsg(socket.get(), &message, MSG_NOSIGNAL);
}

/// Waits until every other local rank has connected and sent its request.
std::vector<FileDescriptor> acceptAll(const HostSegmentOptions &options,
                                      const FileDescriptor &listener,
                                      Clock::time_point deadline,
                                      std::string &mismatch) {
  std::vector<FileDescriptor> peers(options.locals);
  for (uint32_t missing = options.locals - 1; missing > 0;) {
    pollfd ready{listener.get(), POLLIN, 0};
    int count = poll(&ready, 1, millisecondsLeft(deadline));
    if (count == 0) {
      std::string ranks;
      for (uint32_t local = 1; local < options.locals; ++local)
        if (!peers[local])
          ranks += (ranks.empty() ? "" : ", ") + std::to_string(local);
      fail(options, "local ranks " + ranks + " did not come within " +
                        std::to_string(options.timeoutSeconds) + " s");
    }
    if (count < 0 && errno != EINTR)
      failErrno(options, "poll");
    FileDescriptor peer(
        accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!peer || !isSameUser(peer))
      continue;
    setTimeout(peer, deadline);
    Request request{};
    if (recv(peer.get(), &request, sizeof(request), 0) != sizeof(request) ||
        request.local == 0 || request.local >= options.locals ||
        peers[request.local])
      continue;
    if (request.bytes != options.bytes || request.locals != options.locals)
      mismatch = "local rank " + std::to_string(request.local) + " wants " +
                 std::to_string(request.bytes) + " bytes for " +
                 std::to_string(request.locals) + " ranks, local rank 0 " +
                 std::to_string(options.bytes) + " bytes for " +
                 std::to_string(options.locals);
    peers[request.local] = std::move(peer);
    --missing;
  }
  return peers;
}

} // namespace

FileDescriptor offerSegment(const HostSegmentOptions &options,
                            const MakeSegment &make) {
  Clock::time_point deadline = deadlineOf(options);
  sockaddr_un address;
  socklen_t length;
  FileDescriptor listener = makeSocket(options, address, length);
  if (bind(listener.get(), reinterpret_cast<sockaddr *>(&address), length) != 0)
    failErrno(options, "bind");
  if (listen(listener.get(), int(options.locals)) != 0)
    failErrno(options, "listen");

  // Listen first, so that the other ranks learn of a failure here.
  FileDescriptor memory;
  std::string error;
  try {
    memory = make();
  } catch (const std::exception &failure) {
    error = failure.what();
  }
  std::string mismatch;
  auto peers = acceptAll(options, listener, deadline, mismatch);
  if (error.empty())
    error = mismatch;

  Answer answer{};
  answer.failed = !error.empty();
  std::strncpy(answer.text, error.c_str(), sizeof(answer.text) - 1);
  for (const FileDescriptor &peer : peers)
    if (peer)
      sendAnswer(peer, answer, answer.failed ? -1 : memory.get());
  if (answer.failed)
    throw std::runtime_error(error);
  return memory;
}

FileDescriptor takeSegment(const HostSegmentOptions &options) {
  Clock::time_point deadline = deadlineOf(options);
  sockaddr_un address;
  socklen_t length;
  FileDescriptor socket;
  for (;;) {
    socket = makeSocket(options, address, length);
    if (connect(socket.get(), reinterpret_cast<sockaddr *>(&address), length) ==
        0)
      break;
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR)
      failErrno(options, "connect");
    if (millisecondsLeft(deadline) == 0)
      fail(options, "local rank 0 did not offer it within " +
                        std::to_string(options.timeoutSeconds) + " s");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!isSameUser(socket))
    fail(options, "it is offered by a process of another user");
  setTimeout(socket, deadline);
  Request request{options.local, options.locals, options.bytes};
  if (send(socket.get(), &request, sizeof(request), MSG_NOSIGNAL) !=
      sizeof(request))
    failErrno(options, "send");

  Answer answer{};
  iovec part{&answer, sizeof(answer)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t received = recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC);
  if (received < 0)
    failErrno(options, "no answer from local rank 0: recvmsg");
  if (received != sizeof(answer))
    fail(options, "local rank 0 has ended");
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  FileDescriptor memory;
  if (header && header->cmsg_type == SCM_RIGHTS) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
    memory = FileDescriptor(fd);
  }
  if (answer.failed)
    fail(options,
         std::string("local rank 0 could not make it: ") + answer.text);
  if (!memory)
    fail(options, "local rank 0 sent no memory");
  return memory;
}

} // namespace fcdp
