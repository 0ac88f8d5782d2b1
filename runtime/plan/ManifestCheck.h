// SPDX-License-Identifier: Apache-2.0
//
// What the manifest's checks that look at several entries at once share.
#pragma once

#include "plan/Manifest.h"

#include <stdexcept>

namespace fcdp {

/// Collects nothing: throws std::runtime_error at the first violation. Used by
/// one thread.
class ManifestChecker {
public:
  explicit ManifestChecker(const Manifest &manifest) : m(manifest) {}

protected:
  [[noreturn]] static void fail(const std::string &where,
                                const std::string &message) {
    throw std::runtime_error("manifest." + where + ": " + message);
  }
  static void require(bool holds, const std::string &where,
                      const std::string &message) {
    if (!holds)
      fail(where, message);
  }

  /// A region inside its arena on all ranks, at multiples of `align` bytes.
  void checkBuf(const Buf &buf, const std::string &where, size_t align) const;
  /// A flat region of `elements` of a type.
  void checkFlat(const Buf &buf, int64_t elements, DType dtype,
                 const std::string &where) const;

  const Manifest &m;
};

/// Checks the operations.
void checkOps(const Manifest &manifest);

} // namespace fcdp
