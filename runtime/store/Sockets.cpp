// SPDX-License-Identifier: Apache-2.0
#include "store/Sockets.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>

namespace fcdp {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList parseAddress(const std::string &address, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  if (int error = getaddrinfo(address.c_str(), std::to_string(port).c_str(),
                              &hints, &found))
    throw std::runtime_error("expected a numeric address, got '" + address +
                             "': " + gai_strerror(error));
  return AddressList(found, freeaddrinfo);
}

FileDescriptor openSocket(const addrinfo &address) {
  FileDescriptor made(
      socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made)
    throw std::runtime_error(std::string("socket failed: ") +
                             std::strerror(errno));
  made.keepFromChildren();
  return made;
}

/// Sends messages at once: heartbeats are small, and must not wait for the
/// next.
void sendAtOnce(int socket) {
  int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

} // namespace

FileDescriptor listenOn(const std::string &address, uint16_t port) {
  AddressList parsed = parseAddress(address, port);
  FileDescriptor made = openSocket(*parsed);
  int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(made.get(), parsed->ai_addr, parsed->ai_addrlen) != 0 ||
      listen(made.get(), SOMAXCONN) != 0)
    throw std::runtime_error(std::strerror(errno));
  return made;
}

uint16_t portOf(const FileDescriptor &listening) {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  getsockname(listening.get(), reinterpret_cast<sockaddr *>(&own), &length);
  return ntohs(own.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 &>(own).sin6_port
                   : reinterpret_cast<sockaddr_in &>(own).sin_port);
}

FileDescriptor beginConnecting(const std::string &address, uint16_t port) {
  AddressList parsed = parseAddress(address, port);
  FileDescriptor made = openSocket(*parsed);
  sendAtOnce(made.get());
  if (connect(made.get(), parsed->ai_addr, parsed->ai_addrlen) != 0 &&
      errno != EINPROGRESS)
    throw std::runtime_error(std::strerror(errno));
  return made;
}

Accepted acceptFrom(const FileDescriptor &listening) {
  Accepted accepted;
  sockaddr_storage peer{};
  socklen_t length = sizeof(peer);
  auto *address = reinterpret_cast<sockaddr *>(&peer);
  int fd =
      accept4(listening.get(), address, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    accepted.isOutOfDescriptors = errno == EMFILE || errno == ENFILE ||
                                  errno == ENOBUFS || errno == ENOMEM;
    return accepted;
  }
  accepted.socket = FileDescriptor(fd);
  accepted.socket.keepFromChildren();
  sendAtOnce(fd);
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof(host), service, sizeof(service),
                  NI_NUMERICHOST | NI_NUMERICSERV) == 0) {
    accepted.address = host;
    accepted.port = uint16_t(std::atoi(service));
  }
  return accepted;
}

} // namespace fcdp
