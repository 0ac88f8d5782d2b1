// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Printable.h"

#include <stdexcept>
#include <string>
#include <sys/types.h>

namespace fcdp {

/// The reasons why a call of a session fails.
enum class SessionErrorCode {
  /// The file is not a compiled step, or has another version.
  BadObject,
  /// The launcher's variables are missing or contradict each other, or the
  /// mesh that it started is not the one that the step was compiled for.
  BadLaunch,
  /// A file of weights or a checkpoint cannot be read, or its tensors do not
  /// fit the step.
  BadWeights,
  /// Inputs are missing, or differ in number, shape, type or range from those
  /// of the step.
  InputMismatch,
  /// This process has no device that the step can run on.
  NoDevice,
  /// The ranks did not meet in time, or do not have the same step.
  RendezvousFailed,
  /// Another rank has died, or failed by itself.
  PeerFailed,
  /// A collective did not end in time, and no rank is known to have failed.
  TimedOut,
  OutOfMemory,
  /// A file cannot be written.
  FileFailed,
  /// A loss or a gradient is infinite or NaN, and the session is set to stop
  /// then.
  NotFinite,
  /// The call was not allowed in the session's state, or an argument was wrong.
  Misuse,
  /// Another thread is in a call of the session.
  Busy,
  /// An operator of the step failed, or there was an error without a code of
  /// its own.
  Failed,
};

/// Returns the code in words: "peer failed".
const char *name(SessionErrorCode code);

/// The exception that functions of a session throw. Its text has no control
/// characters. If a function documents
/// InputMismatch or Misuse, these and Busy leave the session unchanged. After
/// any other error the session can only be destroyed.
class SessionError : public std::runtime_error {
public:
  SessionError(SessionErrorCode code, const std::string &message)
      : std::runtime_error(printable(message)), errorCode(code) {}
  SessionErrorCode code() const { return errorCode; }

private:
  SessionErrorCode errorCode;
};

/// Returns the error of calls in a process that was forked from `opener`, which
/// has opened the session.
SessionError forkedProcessError(pid_t opener);

} // namespace fcdp
