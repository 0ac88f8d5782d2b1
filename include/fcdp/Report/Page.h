// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepReport.h"
#include "fcdp/Report/Timeline.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// A step as the page shows it.
struct PageStep {
  StepReport report;
  /// As describeTimeline has it.
  std::string timeline;
};

/// A timeline as JSON, small enough for a page: spans of one activity on a
/// stream that are shorter than a pixel, and near each other, are one, and of
/// memory in a time as short there is the most that is in use.
std::string describeTimeline(const Timeline &timeline);

/// Writes one self-contained HTML file, which shows `steps` side by side.
void writePage(llvm::ArrayRef<PageStep> steps, llvm::raw_ostream &stream);

} // namespace fcdp
