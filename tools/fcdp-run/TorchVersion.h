// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TOOLS_RUN_TORCHVERSION_H
#define FCDP_TOOLS_RUN_TORCHVERSION_H

namespace fcdp::run {

/// Throws std::runtime_error if the libtorch of this process has another
/// version than the one that fcdp was built with. Its binary interface differs,
/// and the errors that follow would not show the cause.
void requireTorchVersion();

} // namespace fcdp::run

#endif // FCDP_TOOLS_RUN_TORCHVERSION_H
