// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Report/Comparison.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Format.h"

#include <tuple>

using namespace fcdp;

static bool isPredicted(const StepReport &report) {
  return report.prediction.scenarios.has_value();
}

static bool fits(const StepReport &report) {
  return report.fitsDevice() && report.fitsHost();
}

static bool isBetter(const StepReport *a, const StepReport *b) {
  auto getKey = [](const StepReport *report) {
    return std::make_tuple(!fits(*report), report->prediction.times.seconds);
  };
  return getKey(a) < getKey(b);
}

void fcdp::compareReports(llvm::ArrayRef<StepReport *> reports) {
  for (StepReport *report : reports) {
    llvm::SmallVector<const StepReport *> alike;
    for (const StepReport *other : reports)
      if (isPredicted(*other) && other->input == report->input)
        alike.push_back(other);
    if (!isPredicted(*report) || alike.size() < 2)
      continue;
    const StepReport &best = **llvm::min_element(alike, isBetter);
    report->comparison = {best.facts.strategy, &best == report,
                          compareTimes(*report->prediction.scenarios,
                                       *best.prediction.scenarios,
                                       report->prediction.spread)};
  }
}

/// Prints `zero3: 1.5 (1.45 to 1.55) times as long as fcdp`.
static void printComparison(const StepReport &report,
                            llvm::raw_ostream &stream) {
  const StepComparison &compared = *report.comparison;
  stream << "            " << report.facts.strategy << ": ";
  if (compared.isBest) {
    stream << (fits(report) ? "the fastest that fits\n" : "the fastest\n");
    return;
  }
  if (!compared.ratio.isCertain())
    stream << "cannot be told apart from " << compared.best << ", ";
  stream << llvm::format("%.4g (%.4g to %.4g) times as long as ",
                         compared.ratio.nominal, compared.ratio.range.low,
                         compared.ratio.range.high)
         << (compared.ratio.isCertain() ? compared.best : "it")
         << (fits(report) ? "\n" : "; does not fit\n");
}

void fcdp::printComparisons(llvm::ArrayRef<const StepReport *> reports,
                            llvm::raw_ostream &stream) {
  const StepReport *previous = nullptr;
  for (const StepReport *report : reports) {
    if (!report->comparison)
      continue;
    if (!previous || previous->input != report->input)
      stream << "\ncompared    " << report->input << '\n';
    printComparison(*report, stream);
    previous = report;
  }
}
