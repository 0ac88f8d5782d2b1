// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// Registers `--test-read-pt2`.
void registerTestReadPt2Translation();

} // namespace fcdp
