// SPDX-License-Identifier: Apache-2.0
//
// The rules of plan/Plan.fbs. Everything throws std::runtime_error at the first
// violation, with the field's path in front.
#pragma once

#include "plan/StepPlan.h"

#include <sstream>
#include <stdexcept>

namespace fcdp {

/// Has FlatBuffers verify the bytes, and checks each value by itself: that
/// enumerators are known and sizes make sense.
const plan::Plan &verifyPlan(std::span<const std::byte> bytes);

/// Checks the rules that look at several values, in this order.
void checkPlan(const StepPlan &plan, std::span<const std::byte> constants);
void checkOps(const StepPlan &plan);
void checkFunctions(const StepPlan &plan);

// What the checks share.

/// Throws the error of the violation at `where`, a path in the plan.
template <typename... Parts>
[[noreturn]] void failCheck(const std::string &where, const Parts &...message) {
  std::ostringstream text;
  text << "plan." << where << ": ";
  (text << ... << message);
  throw std::runtime_error(text.str());
}
/// "expected 8, got 12". `what` explains the number.
void checkEqual(const std::string &where, uint64_t expected, uint64_t actual,
                const std::string &what = "");
/// An index of one of `count` entries.
void checkIndex(const std::string &where, uint64_t index, size_t count,
                const char *entries);
/// A region inside its arena on all ranks, at multiples of `align` bytes.
void checkBuf(const StepPlan &plan, const std::string &where,
              const plan::Buf &buf, size_t align = 1);
/// A flat region of `elements` of a type.
void checkFlat(const StepPlan &plan, const std::string &where,
               const plan::Buf &buf, uint64_t elements, plan::DType dtype);
/// "buckets[3]"
inline std::string at(const char *list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

} // namespace fcdp
