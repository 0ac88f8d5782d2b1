// SPDX-License-Identifier: Apache-2.0
#include "core/MessageSpec.h"

#include <stdexcept>
#include <string>

namespace fcdp {

void MessageSpec::expectRaw(const char *what) const {
  if (!isRaw())
    throw std::runtime_error(std::string(what) +
                             ": messages are coded without loss on CPUs only");
}

} // namespace fcdp
