// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// From now on, control characters in lines of the standard error are escaped
/// as `printable` does, tabs excepted. For tools in which MLIR prints
/// diagnostics itself: names and places in them are those of the input.
void escapeStderr();

} // namespace fcdp
