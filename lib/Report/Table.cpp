// SPDX-License-Identifier: Apache-2.0

#include "Table.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace fcdp;

std::string fcdp::printNumber(double value, const char *format) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return text;
}

void fcdp::printTable(llvm::ArrayRef<TableRow> rows,
                      llvm::raw_ostream &stream) {
  std::vector<size_t> widths(rows[0].size());
  for (const TableRow &row : rows)
    for (auto [width, cell] : llvm::zip_equal(widths, row))
      width = std::max(width, cell.size());
  for (const TableRow &row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      stream << llvm::right_justify(row[i], widths[i]) << "  ";
    stream << row.back() << '\n';
  }
}
