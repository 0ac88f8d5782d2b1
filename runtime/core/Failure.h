// SPDX-License-Identifier: Apache-2.0
//
// Errors of the kinds that programs react to.
#pragma once

#include <functional>
#include <new>
#include <stdexcept>
#include <string>

namespace fcdp {

enum class FailureKind {
  Other,
  /// A transfer did not end within its timeout.
  TimedOut,
  /// The memory of a device or of the host does not suffice.
  OutOfMemory,
  /// Another rank has died or failed, and the text says which.
  PeerFailed,
  /// Work that no other rank takes part in has failed, such as a transfer of a
  /// disk.
  Local,
};

/// An error of a known kind.
class Failure : public std::runtime_error {
public:
  explicit Failure(const std::string &text,
                   FailureKind kind = FailureKind::Other)
      : std::runtime_error(text), failureKind(kind) {}
  FailureKind kind() const { return failureKind; }

private:
  FailureKind failureKind;
};

/// Is called with a failure of this rank before communicators are aborted in
/// which a thread of this rank is in a call. They are freed under that call,
/// which may end the process.
using OnBlocked = std::function<void(const Failure &failure)>;

/// Returns the kind of any error.
inline FailureKind kindOf(const std::exception &error) {
  if (auto *failure = dynamic_cast<const Failure *>(&error))
    return failure->kind();
  bool isMemory = dynamic_cast<const std::bad_alloc *>(&error);
  return isMemory ? FailureKind::OutOfMemory : FailureKind::Other;
}

} // namespace fcdp
