// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace fcdp {

/// What happens to a step whose loss or gradients are infinite or NaN.
enum class OnNonfinite {
  /// The session ends with an error, after the step's update.
  Stop,
  /// The step makes no update. A loss is found on any rank. A gradient is found
  /// by its norm, if the step clips gradients; otherwise it ends the session.
  Skip,
  /// The update is made, and nothing is checked.
  Continue,
};

} // namespace fcdp
