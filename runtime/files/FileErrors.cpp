// SPDX-License-Identifier: Apache-2.0
#include "files/FileErrors.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace fcdp {

void throwErrno(const std::string &path, const std::string &doing) {
  throwAt(path, "cannot be " + doing + ": " + std::strerror(errno));
}

void throwAt(const std::string &path, const std::string &message) {
  throw std::runtime_error(path + ": " + message);
}

} // namespace fcdp
