// SPDX-License-Identifier: Apache-2.0
#include "plan/StepPlan.h"

#include <c10/util/hash.h>

namespace fcdp {

std::string hashBytes(std::span<const std::byte> bytes) {
  c10::sha1 hash(
      std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size()));
  if (bytes.empty())
    hash.reset();
  return hash.str();
}

} // namespace fcdp
