// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace fcdp {

/// Returns `value` as printf does.
std::string printNumber(double value, const char *format = "%.4g");

/// The cells of a row of a table of text.
using TableRow = std::vector<std::string>;

/// Prints rows of the same length. All columns but the last are
/// right-justified.
void printTable(llvm::ArrayRef<TableRow> rows, llvm::raw_ostream &stream);

} // namespace fcdp
