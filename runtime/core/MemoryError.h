// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace fcdp {

/// Memory of a device or of the host does not suffice. The text names its
/// purpose and its bytes.
class MemoryError : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

} // namespace fcdp
