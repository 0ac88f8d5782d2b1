// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/Sweep.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Prints a line for each setting of options that `sweep` has: the input with
/// the most tokens that fits, the one with the longest sequences, and the
/// fastest, with the bytes of a device and of a node's host memory. If
/// nothing fits, the line says what the smallest input needs. Bytes are in GiB.
void printFitTable(const Sweep &sweep, llvm::raw_ostream &stream);

} // namespace fcdp
