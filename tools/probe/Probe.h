// SPDX-License-Identifier: Apache-2.0
//
// Measures the machines, devices and links of a job's ranks.
#pragma once

#include "job/JobSetup.h"
#include "probe/ProbeOptions.h"

#include <functional>
#include <string>

namespace fcdp::probe {

/// Functions that a probe calls while it runs.
struct ProbeReports {
  /// Called on each rank when another part of the probe begins, with its name,
  /// and with "" after the last one.
  std::function<void(const std::string &part)> onPart;
  /// Called on rank 0 with the description, while the other ranks wait. An
  /// exception ends the probe.
  std::function<void(const std::string &description)> onFound;
};

/// Throws std::runtime_error unless this process can measure the devices that
/// the options ask for.
void requireProbe(const ProbeOptions &options);

/// Sets this process's number of threads, and returns the options of the job to
/// measure, without failure handling.
JobOptions prepareProbe(const ProbeOptions &options, const Launch &launch);

/// Measures links, copies and computing on all ranks of the job at once, and
/// ends the job. Throws TransportError, and std::runtime_error for other
/// errors.
void probeCluster(const ProbeOptions &options, Job &job,
                  const ProbeReports &reports);

} // namespace fcdp::probe
