// SPDX-License-Identifier: Apache-2.0
//
// The rule by which gradients are accumulated late, so that reductions run
// beside compute. The pass --fcdp-delay-sums applies it and the residency
// estimate prices it. It does not use the IR.
#pragma once

#include <cstddef>

namespace fcdp {

/// Returns the unit before whose pack the gradients of `unit` are accumulated,
/// if the reductions of `inFlight` units may run at once. Units are counted in
/// the order of their reductions. The result `units`, their number, means the
/// end of the function.
constexpr size_t findSumPlace(size_t unit, size_t inFlight, size_t units) {
  return inFlight < units - unit ? unit + inFlight : units;
}

/// Returns whether accumulates at the end of a function may still be in flight
/// when the next one begins, if copies are fetched `prefetch` live ranges
/// ahead. Without prefetch the next function begins with its gathers, so
/// nothing would run beside the accumulates. An accumulator in host memory, and
/// the accumulates before it, are never in flight there: the function ends
/// after its store.
constexpr bool mayCrossBoundary(size_t prefetch) { return prefetch > 0; }

} // namespace fcdp
