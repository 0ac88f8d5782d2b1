// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/Sweep.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// Prints a table of all points, then the comparisons.
void printSweep(const Sweep &sweep, llvm::raw_ostream &stream);

/// Writes the same as an object's attributes; docs/simulator.md has the schema.
void writeSweep(const Sweep &sweep, llvm::json::OStream &json);

} // namespace fcdp
