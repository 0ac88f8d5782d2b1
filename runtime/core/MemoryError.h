// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Failure.h"

namespace fcdp {

/// An error of insufficient device or host memory. The text names the memory's
/// purpose and its bytes.
class MemoryError : public Failure {
public:
  explicit MemoryError(const std::string &text)
      : Failure(text, FailureKind::OutOfMemory) {}
};

} // namespace fcdp
