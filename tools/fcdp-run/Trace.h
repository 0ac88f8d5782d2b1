// SPDX-License-Identifier: Apache-2.0
//
// A step that was run, as trace events.
#pragma once

#include "StepStats.h"
#include "core/StepRecorder.h"
#include "step/Manifest.h"

#include <string>

namespace fcdp::run {

/// Google's "Trace Event Format" of the step that `recorder` has, with the
/// threads, names and categories of fcdp-sim's, and `stats` beside it. Times
/// are in microseconds from the step's beginning.
std::string traceOf(const Manifest &manifest, const StepRecorder &recorder,
                    const StepStats &stats);

} // namespace fcdp::run
