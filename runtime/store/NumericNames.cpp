// SPDX-License-Identifier: Apache-2.0
//
// Replaces the C library's getnameinfo in this process. PyTorch's store calls
// it for every connection, to log the peer's name, and serves no client until
// the name server has answered (pytorch/pytorch#159007). One lost answer takes
// 5 s, after which live ranks look dead.

#include <dlfcn.h>
#include <netdb.h>

extern "C" __attribute__((visibility("default"))) int
getnameinfo(const sockaddr *address, socklen_t addressLength, char *host,
            socklen_t hostLength, char *service, socklen_t serviceLength,
            int flags) {
  static auto *const next =
      reinterpret_cast<decltype(&getnameinfo)>(dlsym(RTLD_NEXT, "getnameinfo"));
  return next(address, addressLength, host, hostLength, service, serviceLength,
              flags | NI_NUMERICHOST);
}
