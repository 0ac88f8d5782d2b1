// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/StepReport.h"
#include "fcdp/Report/Timeline.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// A step with the data for the page.
struct PageStep {
  StepReport report;
  /// The result of describeTimeline.
  std::string timeline;
};

/// Returns a timeline as JSON that is small enough for a page. Neighbouring
/// spans of one activity that together are shorter than a pixel are merged. If
/// several memory samples are within one pixel, the greatest is kept.
std::string describeTimeline(const Timeline &timeline);

/// Writes one self-contained HTML file that shows `steps` side by side.
void writePage(llvm::ArrayRef<PageStep> steps, llvm::raw_ostream &stream);

} // namespace fcdp
