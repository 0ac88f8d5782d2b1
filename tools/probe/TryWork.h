// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace fcdp::probe {

/// Runs `work`. Returns the first line of libtorch's error, or an empty string
/// if there is none.
std::string tryWork(const std::function<void()> &work);

} // namespace fcdp::probe
