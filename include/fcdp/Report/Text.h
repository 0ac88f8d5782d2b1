// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepReport.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints the storage, memory and traffic of a planned step.
void printFacts(const StepFacts &facts, llvm::raw_ostream &stream);

/// Prints the duration of a step and the exposed part of it.
void printExposure(const StepPrediction &prediction, llvm::raw_ostream &stream);

/// Prints a report without its buckets.
void printReport(const StepReport &report, llvm::raw_ostream &stream);

} // namespace fcdp
