// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Report/Timeline.h"
#include "llvm/Support/raw_ostream.h"

namespace fcdp {

/// Writes trace events (Google's "Trace Event Format", which Perfetto and
/// chrome://tracing read): streams as threads, device memory as a counter.
/// Times count from the first span.
void writeTrace(const Timeline &timeline, llvm::raw_ostream &stream);

} // namespace fcdp
