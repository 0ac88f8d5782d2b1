// SPDX-License-Identifier: Apache-2.0
//
// Writes reports as JSON; docs/simulator.md has the schema.
#pragma once

#include "fcdp/Report/StepReport.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// Writes `report` as an object's attributes.
void writeReport(const StepReport &report, llvm::json::OStream &json);

} // namespace fcdp
