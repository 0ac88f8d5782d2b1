// SPDX-License-Identifier: Apache-2.0
//
// Detects the rank that a launcher has assigned to this process: torchrun, Open
// MPI, srun, or fcdp-run itself.
#pragma once

#include "core/Mesh.h"

#include <functional>
#include <optional>
#include <string>

namespace fcdp {

struct Launch {
  std::string launcher; ///< "torchrun", for messages
  Mesh mesh;
  Place place;
  uint32_t rank = 0; ///< the launcher's number
  std::string masterHost;
  uint16_t masterPort = 0;
  bool servesStore = false;
  /// Whether fcdp-run's launcher serves the job's store there.
  bool isOwnStore = false;
  uint32_t restartCount = 0;
  /// The secret that the ranks of the job prove to know; empty if there is
  /// none.
  std::string secret;
};

/// Returns the only rank of a job, for a process that no launcher has started.
Launch onlyRank(const std::string &launcher);

/// Returns the value of an environment variable, or none.
using Environment =
    std::function<std::optional<std::string>(const std::string &name)>;
std::optional<std::string> processEnvironment(const std::string &name);

/// Returns the job's secret in FCDP_JOB_KEY, or else `name`, the launcher's
/// name of the job. Throws std::runtime_error if it is too short for a secret.
std::string secretOf(const Environment &environment, const std::string &name);

/// Returns the rank that a launcher gave this process, or none if no launcher
/// has started it. `ignoreSlurm` ignores Slurm's variables, which are also set
/// in the shell of an allocation. Throws std::runtime_error if a variable is
/// missing or invalid.
std::optional<Launch> detectLaunch(const Environment &environment,
                                   bool ignoreSlurm);

} // namespace fcdp
