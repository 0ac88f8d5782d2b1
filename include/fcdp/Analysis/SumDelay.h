// SPDX-License-Identifier: Apache-2.0
//
// The rule by which sums of gradients are accumulated late, so that reductions
// run beside compute. The pass --fcdp-delay-sums applies it and the residency
// estimate prices it. Knows no IR.
#pragma once

#include <cstddef>

namespace fcdp {

/// Returns the unit before whose gradients are packed the sums of unit `unit`
/// are accumulated, if the reductions of `inFlight` units may run at once.
/// Units are counted in the order of their reductions. `units`, their number,
/// stands for the end of the function.
constexpr size_t findSumPlace(size_t unit, size_t inFlight, size_t units) {
  return inFlight < units - unit ? unit + inFlight : units;
}

/// Returns whether the sums that remain for the end of a function may still be
/// in flight when the next one begins, if copies are fetched `prefetch` live
/// ranges ahead. With none fetched ahead, the next function begins with its
/// gathers, and nothing runs beside the sums. A sum in host memory, and those
/// in front of it, are never in flight then: the function ends after its store.
constexpr bool mayCrossBoundary(size_t prefetch) { return prefetch > 0; }

} // namespace fcdp
