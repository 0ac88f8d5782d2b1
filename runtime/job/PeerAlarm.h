// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/Backend.h"
#include "job/Job.h"

#include <mutex>
#include <optional>

namespace fcdp {

/// Ends all waits for other ranks after one of them has failed. Thread-safe:
/// the job's monitor calls `ring`, any thread of the program may call
/// `interrupt`, and the session's thread calls the rest.
class PeerAlarm {
public:
  /// Sets the job and the backend whose waits are ended. Either may be null.
  /// They must live until they are replaced.
  void watch(Job *job, Backend *backend);
  void ring(const std::string &message);
  /// Rings for a failure of this rank, and reports it to the other ranks.
  void interrupt(const std::string &message);
  /// Returns the message of `interrupt`, if it was called.
  std::optional<std::string> interruption();

private:
  void end();

  std::mutex mutex;
  std::string message; ///< empty until it rings
  bool isInterrupted = false;
  Job *job = nullptr;
  Backend *backend = nullptr;
};

} // namespace fcdp
