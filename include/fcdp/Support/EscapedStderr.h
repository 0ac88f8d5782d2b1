// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// Escapes control characters in lines of the standard error from now on, as
/// `printable` does, except for tabs. For tools in which MLIR prints
/// diagnostics itself, since names and places in them are from the input.
void escapeStderr();

} // namespace fcdp
