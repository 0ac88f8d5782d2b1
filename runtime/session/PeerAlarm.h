// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/Job.h"
#include "core/Backend.h"

#include <mutex>

namespace fcdp {

/// Ends everything that waits for other ranks once one of them has failed.
/// Thread-safe: the job's monitor rings it, the session's thread does the rest.
class PeerAlarm {
public:
  /// Sets the job and the backend whose waits are ended. Either may be null.
  /// They must live until they are replaced.
  void watch(Job *job, Backend *backend);
  void ring(const std::string &message);

private:
  void end();

  std::mutex mutex;
  std::string message; ///< empty until it rings
  Job *job = nullptr;
  Backend *backend = nullptr;
};

} // namespace fcdp
