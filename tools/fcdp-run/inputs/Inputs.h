// SPDX-License-Identifier: Apache-2.0
//
// All inputs of a step, and which row feeds which rank when.
#pragma once

#include "inputs/InputSource.h"

namespace fcdp::run {

/// `--input NAME=SPEC`
struct InputOption {
  std::string name, spec;
};

/// Immutable once made, hence thread-safe.
class Inputs {
public:
  /// Throws std::runtime_error if inputs are missing, unknown or do not fit.
  Inputs(const StepPlan &plan, const std::vector<InputOption> &options);

  void checkValues() const;
  /// Row of a micro-batch: ((step K + microBatch) ranks + rank) mod M, where
  /// steps count from 0, and rank is the world rank.
  void read(size_t input, int64_t step, int64_t microBatch, uint32_t rank,
            std::span<std::byte> out) const;
  size_t size() const { return sources.size(); }

private:
  void findRows();

  const StepPlan &plan;
  std::vector<std::unique_ptr<InputSource>> sources;
  /// M; none if all inputs are random.
  std::optional<int64_t> rows;
};

} // namespace fcdp::run
