// SPDX-License-Identifier: Apache-2.0

#include "store/LocalAddress.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <netdb.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace fcdp {
namespace {

/// Returns this machine's address on the route to `target`, or "" if there is
/// no route. Connecting a datagram socket sends nothing; it only makes the
/// system choose the route.
std::string addressOfRoute(const addrinfo &target) {
  int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0)
    return "";
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  char text[NI_MAXHOST];
  auto *address = reinterpret_cast<sockaddr *>(&own);
  bool ok = connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
            getsockname(fd, address, &length) == 0 &&
            getnameinfo(address, length, text, sizeof(text), nullptr, 0,
                        NI_NUMERICHOST) == 0;
  close(fd);
  return ok ? text : "";
}

} // namespace

std::string localAddressToward(const std::string &host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo *found = nullptr;
  // Any port will do, because nothing is sent.
  if (int error = getaddrinfo(host.c_str(), "9", &hints, &found))
    throw std::runtime_error("cannot resolve the store's host '" + host +
                             "': " + gai_strerror(error));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  for (const addrinfo *target = found; target; target = target->ai_next) {
    std::string address = addressOfRoute(*target);
    if (!address.empty())
      return address;
  }
  throw std::runtime_error("no network interface reaches the store's host '" +
                           host + "'");
}

std::string hostName() {
  char text[256] = {};
  return gethostname(text, sizeof(text) - 1) == 0 ? text : "?";
}

std::string machineId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) && !id.empty() ? id : hostName();
}

} // namespace fcdp
