// SPDX-License-Identifier: Apache-2.0
//
// Measured durations of operations, as fcdp-run --profile writes them.
// docs/profile.md has the schema.
#pragma once

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// A profile. It is immutable once read, and one profile serves all ranks.
struct Profile {
  struct Point {
    double bytes = 0, seconds = 0;
  };
  /// Points in ascending order of bytes, without duplicates.
  using Curve = std::vector<Point>;

  /// The shape of the job that was measured. Durations of collectives apply
  /// only to jobs of this shape.
  int64_t nodes = 0, ranksPerNode = 0;
  /// Seconds by operator, operand types and result types.
  llvm::StringMap<double> operators;
  /// Curves by kind and, for collectives, axis: "all_gather node".
  std::map<std::string, Curve> operations;
};

/// Parses a profile. The error reads `FILE:LINE: error: ...`.
llvm::Expected<Profile> parseProfile(llvm::MemoryBufferRef text);
llvm::Expected<std::shared_ptr<const Profile>>
loadProfile(llvm::StringRef file);

/// Returns the seconds for `bytes`. Between two points it interpolates
/// linearly; outside of all points it scales the estimate by the ratio of
/// measured to estimated seconds at the nearest point. `estimate` gives the
/// estimated seconds for any number of bytes. Requires a `curve` that is not
/// empty.
double readCurve(const Profile::Curve &curve, double bytes,
                 llvm::function_ref<double(double bytes)> estimate);

} // namespace fcdp
