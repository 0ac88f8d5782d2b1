// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepReport.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints what a planned step stores, keeps in memory and sends.
void printFacts(const StepFacts &facts, llvm::raw_ostream &stream);

/// Prints how long a step takes, and what of it is waiting.
void printExposure(const StepPrediction &prediction, llvm::raw_ostream &stream);

/// Prints all of a report but its buckets.
void printReport(const StepReport &report, llvm::raw_ostream &stream);

} // namespace fcdp
