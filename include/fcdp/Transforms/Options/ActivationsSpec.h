// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/Support/Error.h"

namespace fcdp {

/// The memory for values of the forward pass that the backward pass reads: the
/// device's, host memory for all that it costs no time to move there, or as
/// much host memory as the device's memory demands.
enum class ActivationsMode { Device, Host, Auto };

/// Parses `device`, `host` or `auto`. Errors list them.
llvm::Expected<ActivationsMode> parseActivations(llvm::StringRef text);

} // namespace fcdp
