// SPDX-License-Identifier: Apache-2.0
//
// The checks of the rules of plan/Plan.fbs. Each throws std::runtime_error at
// the first violation, with the field's path in front.
#pragma once

#include "plan/StepPlan.h"

#include <functional>
#include <sstream>
#include <stdexcept>

namespace fcdp {

/// Has FlatBuffers verify the bytes, and checks each value by itself: that
/// enumerators are known and sizes make sense.
const plan::Plan &verifyPlan(std::span<const std::byte> bytes);

/// Checks the rules that look at several values.
void checkPlan(const StepPlan &plan, std::span<const std::byte> constants);

// The parts of checkPlan in files of their own.

/// Checks the functions and their operations.
void checkFunctions(const StepPlan &plan);
/// Checks one operation, and calls `visit` for each region that it names.
using RegionVisitor = std::function<void(const plan::Buf &)>;
void checkOp(const StepPlan &plan, size_t index, const RegionVisitor &visit);
/// Checks that one stream uses each communicator.
void checkCommunicators(const StepPlan &plan);

// What the checks share.

/// The path of a field, "ops[3].body" and ".bucket". Errors alone join them.
struct FieldPath {
  FieldPath(const char *table) : table(table) {}
  FieldPath(const std::string &table, const char *field = "")
      : table(table), field(field) {}
  std::string_view table, field;
};
inline std::ostream &operator<<(std::ostream &out, const FieldPath &path) {
  return out << path.table << path.field;
}
/// "buckets[3]"
inline std::string at(const char *list, size_t index) {
  return std::string(list) + "[" + std::to_string(index) + "]";
}

/// Throws the error of the violation at `where`, a path in the plan.
template <typename... Parts>
[[noreturn]] void failCheck(const FieldPath &where, const Parts &...message) {
  std::ostringstream text;
  text << "plan." << where << ": ";
  (text << ... << message);
  throw std::runtime_error(text.str());
}
/// An index of one of `count` entries.
void checkIndex(const FieldPath &where, uint64_t index, size_t count,
                const char *entries);
/// A region inside its arena on all ranks, at multiples of `align` bytes.
void checkBuf(const StepPlan &plan, const FieldPath &where,
              const plan::Buf &buf, size_t align = 1);
/// A flat region of `elements` of a type.
void checkFlat(const StepPlan &plan, const FieldPath &where,
               const plan::Buf &buf, uint64_t elements, plan::DType dtype);

} // namespace fcdp
