// SPDX-License-Identifier: Apache-2.0
//
// Prepares an operation of the plan as far as possible when the step is loaded.
#pragma once

#include "operators/StepState.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace fcdp {

/// Used by the issuing thread only; `run` throws on errors.
class PreparedOp {
public:
  virtual ~PreparedOp() = default;
  virtual void run(StepState &state) = 0;
};

using PreparedOpPtr = std::unique_ptr<PreparedOp>;

/// Prepares an operation, which messages call `what`. Throws std::runtime_error
/// without the operation's name, which the caller adds.
PreparedOpPtr prepare(const plan::OpT &op, const char *what, StepState &state);

/// Returns the bytes that distinguish an operation in profiles
/// (docs/profile.md) from others of its kind; none if profiles have no entry
/// for it.
std::optional<uint64_t> countProfiledBytes(const plan::OpT &op,
                                           const StepPlan &plan);

} // namespace fcdp
