// SPDX-License-Identifier: Apache-2.0
//
// Checks the rules of plan/Plan.fbs. Each check throws std::runtime_error at
// the first violation, with the field's path at the front.
#pragma once

#include "plan/StepPlan.h"

#include <functional>
#include <sstream>
#include <stdexcept>

namespace fcdp {

/// Verifies the bytes by FlatBuffers, and checks each value by itself:
/// enumerators must be known and sizes plausible.
const plan::Plan &verifyPlan(std::span<const std::byte> bytes);

/// Checks the rules that look at several values.
void checkPlan(const StepPlan &plan, std::span<const std::byte> constants);

// The parts of checkPlan that are in files of their own.

/// Checks the functions and their operations.
void checkFunctions(const StepPlan &plan);
/// Checks one operation, and calls `visit` for each region that it names.
using RegionVisitor = std::function<void(const plan::Buf &)>;
void checkOp(const StepPlan &plan, size_t index, const RegionVisitor &visit);
/// Check the form in which a collective, at the path `where`, sends values, and
/// the memory and the states that it needs for that.
void checkMessages(const StepPlan &plan, const std::string &where,
                   const plan::AllGatherT &op, const RegionVisitor &visit);
void checkMessages(const StepPlan &plan, const std::string &where,
                   const plan::ReduceScatterT &op, const RegionVisitor &visit);
/// Checks the settings by which only some steps synchronize nodes, and that
/// there are no other functions that do.
void checkSynchronization(const StepPlan &plan);
/// Checks that one stream uses each communicator.
void checkCommunicators(const StepPlan &plan);

// Declarations that the checks share.

/// The path of a field, "ops[3].body" and ".bucket". The parts are joined only
/// for errors.
struct FieldPath {
  FieldPath(const char *table) : table(table) {}
  FieldPath(const std::string &table, const char *field = "")
      : table(table), field(field) {}
  std::string_view table, field;
};
inline std::ostream &operator<<(std::ostream &out, const FieldPath &path) {
  return out << path.table << path.field;
}
/// Returns, for example, "buckets[3]".
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
/// Checks an index of one of `count` entries.
void checkIndex(const FieldPath &where, uint64_t index, size_t count,
                const char *entries);
/// Checks that a region is inside its arena on all ranks, at multiples of
/// `align` bytes.
void checkBuf(const StepPlan &plan, const FieldPath &where,
              const plan::Buf &buf, size_t align = 1);
/// Checks a flat region of `elements` of a type.
void checkFlat(const StepPlan &plan, const FieldPath &where,
               const plan::Buf &buf, uint64_t elements, plan::DType dtype);

} // namespace fcdp
