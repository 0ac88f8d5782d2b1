// SPDX-License-Identifier: Apache-2.0
//
// What operations were measured to take. Written by fcdp-run --profile;
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

/// Immutable once read; all ranks compile from one.
struct Profile {
  struct Point {
    double bytes = 0, seconds = 0;
  };
  /// In ascending order of bytes, of which each is there once.
  using Curve = std::vector<Point>;

  /// Those that were measured; what collectives take is of such jobs only.
  int64_t nodes = 0, ranksPerNode = 0;
  /// Seconds by operator, operands and results.
  llvm::StringMap<double> operators;
  /// By kind and, of collectives, axis: "all_gather node".
  std::map<std::string, Curve> operations;
};

/// Reads a profile. The error is `FILE:LINE: error: ...`.
llvm::Expected<Profile> parseProfile(llvm::MemoryBufferRef text);
llvm::Expected<std::shared_ptr<const Profile>>
loadProfile(llvm::StringRef file);

/// Seconds for `bytes`: between two points, on the line that joins them; beyond
/// the outermost, as many times the estimate as measured there. `estimate`
/// gives seconds for any number of bytes. Pre: `curve` is not empty.
double readCurve(const Profile::Curve &curve, double bytes,
                 llvm::function_ref<double(double bytes)> estimate);

} // namespace fcdp
