// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/Timeline.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Writes trace events in Google's "Trace Event Format", which Perfetto and
/// chrome://tracing read. Streams are threads and device memory is a counter.
/// Time 0 is the begin of the first span.
void writeTrace(const Timeline &timeline, llvm::raw_ostream &stream);

} // namespace fcdp
