// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Failure.h"

namespace fcdp {

/// Memory of a device or of the host does not suffice. The text names its
/// purpose and its bytes.
class MemoryError : public Failure {
public:
  explicit MemoryError(const std::string &text)
      : Failure(text, FailureKind::OutOfMemory) {}
};

} // namespace fcdp
