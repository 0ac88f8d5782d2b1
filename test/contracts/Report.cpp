// SPDX-License-Identifier: Apache-2.0

#include "Report.h"

#include <cstdio>

namespace fcdp::contracts {

std::string describe(Handle handle) {
  char text[32];
  std::snprintf(text, sizeof(text), "0x%jx",
                static_cast<uintmax_t>(reinterpret_cast<uintptr_t>(handle)));
  return text;
}

std::string describe(const Span &span) {
  return std::to_string(span.size()) + " bytes at " +
         describe(reinterpret_cast<Handle>(span.begin));
}

} // namespace fcdp::contracts
