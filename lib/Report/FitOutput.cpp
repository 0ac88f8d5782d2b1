// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/FitOutput.h"

#include "Table.h"
#include "llvm/ADT/STLExtras.h"

using namespace fcdp;

namespace {
class FitPrinter {
public:
  FitPrinter(const Sweep &sweep, llvm::raw_ostream &stream)
      : sweep(sweep), stream(stream), largest(findLargest(sweep)) {}

  void print();

private:
  TableRow makeRow(const LargestInput &found) const;
  std::string describe(const SweepResult &result) const;
  std::string explain(const LargestInput &found) const;

  const Sweep &sweep;
  llvm::raw_ostream &stream;
  const std::vector<LargestInput> largest;
  double fastest = 0; ///< tokens per second
};
} // namespace

static std::string printGiB(int64_t bytes) {
  return printNumber(static_cast<double>(bytes) / 0x1p30, "%.1f");
}

/// Returns `2 x 4096 tokens in 21.3 + 100.2 GiB`.
std::string FitPrinter::describe(const SweepResult &result) const {
  int64_t sequences = result.tokens / std::max<int64_t>(result.sequence, 1);
  return std::to_string(sequences) + " x " + std::to_string(result.sequence) +
         " tokens in " + printGiB(result.device) + " + " +
         printGiB(result.host) + " GiB";
}

/// Says why nothing fits.
std::string FitPrinter::explain(const LargestInput &found) const {
  const SweepResult *least = nullptr;
  for (const SweepResult &result : sweep.results) {
    if (!result.point.equalsBut(found.point, std::nullopt))
      continue;
    if (!result.failure.empty() && !least)
      least = &result;
    if (result.failure.empty() &&
        (!least || !least->failure.empty() || result.device < least->device))
      least = &result;
  }
  return least->failure.empty()
             ? "nothing fits: the smallest is " + describe(*least)
             : "no plan: " + least->failure;
}

TableRow FitPrinter::makeRow(const LargestInput &found) const {
  if (!found.batch)
    return {found.point.options, "-", "-", explain(found)};
  const SweepResult &best = sweep.results[*found.fastest];
  return {found.point.options, describe(sweep.results[*found.batch]),
          describe(sweep.results[*found.sequence]),
          printNumber(best.tokensPerSecond, "%.4g") + " tokens/s (" +
              printNumber(best.tokensPerSecond / fastest, "%.2f") + "), " +
              describe(best)};
}

void FitPrinter::print() {
  for (const LargestInput &found : largest)
    if (found.fastest)
      fastest =
          std::max(fastest, sweep.results[*found.fastest].tokensPerSecond);
  std::vector<TableRow> rows{{"options", "most tokens that fit",
                              "longest sequences that fit",
                              "fastest that fits (of the fastest row)"}};
  for (const LargestInput &found : largest)
    rows.push_back(makeRow(found));
  stream << "Tokens are those of a rank and micro-batch. Memory is that of a "
            "device + of a node's host.\n";
  printTable(rows, stream);
}

void fcdp::printFitTable(const Sweep &sweep, llvm::raw_ostream &stream) {
  FitPrinter(sweep, stream).print();
}
