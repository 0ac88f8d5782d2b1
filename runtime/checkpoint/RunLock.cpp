// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/RunLock.h"
#include "checkpoint/CheckpointFolders.h"

namespace fcdp {

/// Creates the folder, and returns the path of its lock.
static std::string prepareLock(const std::string &run) {
  makeFolder(run);
  return run + "/" + kRunLockName;
}

RunLock::RunLock(const std::string &run, std::chrono::milliseconds patience)
    : lock(prepareLock(run), run,
           "another job saves its checkpoints in this folder; save to another "
           "one, or end that job first",
           patience) {}

} // namespace fcdp
