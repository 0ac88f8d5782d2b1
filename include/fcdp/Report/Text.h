// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepFacts.h"
#include "fcdp/Report/StepPrediction.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints what a planned step stores, keeps in memory and sends.
void printFacts(const StepFacts &facts, llvm::raw_ostream &stream);

/// Prints how long a step takes, and what of it is waiting.
void printExposure(const StepPrediction &prediction, llvm::raw_ostream &stream);

/// Prints where the time of a step goes, and how much comes of it.
void printPrediction(const StepFacts &facts, const StepPrediction &prediction,
                     llvm::raw_ostream &stream);

} // namespace fcdp
