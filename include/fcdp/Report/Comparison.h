// SPDX-License-Identifier: Apache-2.0
//
// Compares strategies of one step over the ranges of their times.
#pragma once

#include "fcdp/Report/StepReport.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Compares the predicted steps among `reports` that have the same input, and
/// sets their `comparison`. A step that is the only one with its input gets
/// none. The reference of the comparison is the fastest step that fits or, if
/// none fits, the fastest.
void compareReports(llvm::ArrayRef<StepReport *> reports);

/// Prints the result, or nothing if nothing was compared.
void printComparisons(llvm::ArrayRef<const StepReport *> reports,
                      llvm::raw_ostream &stream);

} // namespace fcdp
