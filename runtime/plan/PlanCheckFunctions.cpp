// SPDX-License-Identifier: Apache-2.0
//
// Checks a plan's functions with their operations: the bytes of the device
// arena that are reserved at each time. The bytes that an operation names must
// be reserved while it runs, or results of other operations could get them.
#include "core/Packing.h"
#include "plan/PlanCheck.h"

#include <algorithm>
#include <set>

namespace fcdp {

namespace {

void checkMultiple(const FieldPath &path, const char *what, uint64_t value) {
  if (value % packing::kPoolAlignment != 0)
    failCheck(path, "expected ", what, "a multiple of ",
              packing::kPoolAlignment, ", got ", value);
}

/// Bytes [begin, end) of the device arena.
using Bytes = std::pair<uint64_t, uint64_t>;

/// Checks one function.
class FunctionChecker {
public:
  FunctionChecker(const StepPlan &plan, size_t index)
      : plan(plan), function(*plan.functions[index]),
        reservations(plan.reservations[index]), where(at("functions", index)) {}

  void check() {
    checkRanges();
    checkResults();
    for (size_t op = function.first; op < function.end; ++op) {
      reach(op);
      checkPlaces(op);
      checkOp(plan, op, [&](const plan::Buf &buf) { checkReserved(buf, op); });
    }
  }

private:
  void checkRanges() const;
  void checkResults() const;
  void checkPlace(const std::string &path, uint64_t offset,
                  uint64_t bytes) const;
  void reach(size_t op);
  void checkPlaces(size_t op);
  void checkReserved(const plan::Buf &buf, size_t op) const;

  const StepPlan &plan;
  const plan::FunctionT &function;
  const Reservations &reservations;
  const std::string where;
  size_t nextChange = 0, nextResult = 0;
  /// The bytes that are reserved now.
  std::multiset<Bytes> now;
};

void FunctionChecker::checkPlace(const std::string &path, uint64_t offset,
                                 uint64_t bytes) const {
  if (bytes == 0)
    failCheck(path, "expected bytes, got 0");
  checkMultiple(path, "an offset that is ", offset);
  if (offset < plan.stateBytes || offset + bytes > plan.deviceBytes)
    failCheck(path, "expected bytes between ", plan.stateBytes,
              ", where states end, and ", plan.deviceBytes,
              ", where the device arena does, got ", offset, " to ",
              offset + bytes);
}

void FunctionChecker::checkRanges() const {
  for (size_t i = 0; i < function.reserved.size(); ++i) {
    const plan::ReservedRange &range = function.reserved[i];
    std::string path = where + "." + at("reserved", i);
    if (range.from() < function.first || range.to() > function.end ||
        range.from() >= range.to())
      failCheck(path, "expected a stretch of the function's operations, ",
                function.first, " to ", function.end, ", got ", range.from(),
                " to ", range.to());
    checkPlace(path, range.offset(), range.bytes());
    checkMultiple(path, "bytes that are ", range.bytes());
  }
}

void FunctionChecker::checkResults() const {
  uint64_t least = function.first;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const plan::ResultPlace &result = function.results[i];
    std::string path = where + "." + at("results", i);
    if (result.op() < least || result.op() >= function.end)
      failCheck(path, "expected an operation from ", least, " on and below ",
                function.end, ", got ", result.op());
    least = result.op();
    checkPlace(path, result.offset(), result.bytes());
  }
}

/// Advances `now` to operation `op`.
void FunctionChecker::reach(size_t op) {
  auto bytesOf = [&](uint32_t index) {
    const plan::ReservedRange &range = reservations.ranges[index];
    return Bytes(range.offset(), range.offset() + range.bytes());
  };
  const std::vector<ReservationChange> &changes = reservations.changes;
  for (; nextChange < changes.size() && changes[nextChange].op <= op;
       ++nextChange) {
    for (uint32_t index : changes[nextChange].ends)
      now.erase(now.find(bytesOf(index)));
    for (uint32_t index : changes[nextChange].begins)
      now.insert(bytesOf(index));
  }
}

/// Checks that the planned places of results of `op` are not reserved.
void FunctionChecker::checkPlaces(size_t op) {
  for (; nextResult < function.results.size() &&
         function.results[nextResult].op() == op;
       ++nextResult) {
    uint64_t begin = function.results[nextResult].offset();
    uint64_t end = begin + function.results[nextResult].bytes();
    for (auto [from, to] : now)
      if (from < end && begin < to)
        failCheck(where + "." + at("results", nextResult), "bytes ", from,
                  " to ", to, " of the device arena are reserved where ",
                  "operation ", op, " runs: they are not for its results");
  }
}

/// Checks that the bytes of `buf`, on any rank, are reserved or belong to
/// states.
void FunctionChecker::checkReserved(const plan::Buf &buf, size_t op) const {
  if (buf.arena() != plan::Arena::device || buf.bytes() == 0)
    return;
  uint64_t begin = buf.offset();
  uint64_t end =
      offsetOn(buf, {plan.mesh.nodes - 1, plan.mesh.locals - 1}) + buf.bytes();
  uint64_t reservedTo = std::max(begin, plan.stateBytes);
  for (auto [from, to] : now)
    if (from <= reservedTo)
      reservedTo = std::max(reservedTo, to);
  if (reservedTo < end)
    failCheck(at("ops", op), "bytes ", begin, " to ", end,
              " of the device arena are not reserved there, by '", where,
              ".reserved': results of operators may be in them");
}

/// Checks that the functions are those of a step, and that they contain all
/// operations, each once.
void checkFamily(const StepPlan &plan) {
  using plan::Role;
  uint64_t next = 0;
  // The roles with their variants.
  std::set<std::pair<Role, uint32_t>> roles;
  for (size_t i = 0; i < plan.functions.size(); ++i) {
    const plan::FunctionT &function = *plan.functions[i];
    std::string where = at("functions", i);
    if (function.variant >= plan.functions.size())
      failCheck(where + ".variant", "expected a number below that of the ",
                plan.functions.size(), " functions, got ", function.variant);
    if (function.variant != 0 && !isNumbered(function.role))
      failCheck(where + ".variant", "expected 0 for '",
                EnumNameRole(function.role), "', got ", function.variant);
    if (!roles.insert({function.role, function.variant}).second)
      failCheck(where, "'", EnumNameRole(function.role), "' is there twice");
    if (function.first != next || function.end < function.first)
      failCheck(where,
                "expected functions of operations that follow each other, got ",
                function.first, " to ", function.end, " after ", next);
    next = function.end;
  }
  if (next != plan.ops.size())
    failCheck("functions", "expected ", plan.ops.size(),
              " operations in functions, got ", next);
  checkSynchronization(plan);
  for (StepFunction needed : plan.functionsOfSteps())
    if (!roles.count({needed.role, needed.number}))
      failCheck("functions", plan.describe(needed), " is missing; a step of ",
                plan.microBatches, " micro-batches needs it");
  if (roles.count({Role::first_evaluation, 0}) !=
      roles.count({Role::next_evaluation, 0}))
    failCheck("functions", "expected both or none of '",
              EnumNameRole(Role::first_evaluation), "' and '",
              EnumNameRole(Role::next_evaluation), "'");
}

void checkStates(const StepPlan &plan) {
  if (plan.stateBytes > plan.deviceBytes)
    failCheck("state_bytes", "expected at most the ", plan.deviceBytes,
              " bytes of the device arena, got ", plan.stateBytes);
  checkMultiple("state_bytes", "", plan.stateBytes);
  for (size_t i = 0; i < plan.buckets.size(); ++i)
    for (const plan::State &state : plan.buckets[i]->states) {
      uint64_t end = state.buf().offset() + state.buf().bytes();
      if (state.buf().arena() == plan::Arena::device && end > plan.stateBytes)
        failCheck("state_bytes",
                  "expected all states in front of it, got one of ",
                  at("buckets", i), " that ends at byte ", end, " of ",
                  plan.stateBytes);
    }
}

} // namespace

void checkFunctions(const StepPlan &plan) {
  checkFamily(plan);
  checkStates(plan);
  for (size_t i = 0; i < plan.functions.size(); ++i)
    FunctionChecker(plan, i).check();
  checkCommunicators(plan);
}

} // namespace fcdp
