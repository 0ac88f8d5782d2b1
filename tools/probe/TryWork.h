// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

namespace fcdp::run {

/// Runs `work`. Returns the first line of libtorch's error, or an empty string
/// if there is none.
std::string tryWork(const std::function<void()> &work);

} // namespace fcdp::run
