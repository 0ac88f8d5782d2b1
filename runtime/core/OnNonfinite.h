// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// The treatment of a step whose loss or gradients are infinite or NaN.
enum class OnNonfinite {
  /// The session ends with an error, after the step's update.
  Stop,
  /// The step makes no update. A nonfinite loss is found on any rank. A
  /// nonfinite gradient is found by the norm if the step clips gradients;
  /// otherwise it ends the session.
  Skip,
  /// The update is made, and nothing is checked.
  Continue,
};

} // namespace fcdp
