// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_TOOLS_RUN_TORCHVERSION_H
#define FCDP_TOOLS_RUN_TORCHVERSION_H

namespace fcdp::run {

/// Throws std::runtime_error if the libtorch of this process is not of the
/// version that fcdp was built with: its binary interface is another one, and
/// what fails then does not say so.
void requireTorchVersion();

} // namespace fcdp::run

#endif // FCDP_TOOLS_RUN_TORCHVERSION_H
