// SPDX-License-Identifier: Apache-2.0
//
// The checks of a plan's functions: which bytes of the device arena are
// reserved when. Every operation must find the bytes that it names reserved, or
// they would be given to results of others.
#include "core/Packing.h"
#include "plan/PlanCheck.h"

#include <algorithm>
#include <map>

namespace fcdp {

namespace {

/// Calls `visit` for each region of the arenas that an operation names. States
/// are always reserved.
template <typename Visit>
class Regions {
public:
  Regions(const StepPlan &plan, Visit visit) : plan(plan), visit(visit) {}

  void operator()(const plan::AtenCallT &op) const {
    for (const auto &argument : op.args)
      for (int64_t one : argument->slots)
        if (one >= 0)
          slot(one);
  }
  void operator()(const plan::PackBucketT &op) const {
    for (const plan::PackMember &member : op.members) {
      slot(member.source());
      slot(member.planned());
    }
    for (const plan::Buf &buf : op.zero)
      visit(buf);
  }
  template <typename Other>
  void operator()(const Other &op) const {
    if constexpr (requires { op.slot; })
      slot(op.slot);
    if constexpr (requires { op.in; }) {
      visit(op.in);
      visit(op.out);
    }
    if constexpr (requires { op.sum; })
      visit(op.sum);
    if constexpr (requires { op.scratch; })
      if (op.scratch)
        visit(*op.scratch);
  }

private:
  void slot(size_t index) const {
    if (plan.slots[index]->kind == plan::SlotKind::planned)
      visit(*plan.slots[index]->buf);
  }

  const StepPlan &plan;
  Visit visit;
};

/// Checks one function.
class FunctionChecker {
public:
  FunctionChecker(const StepPlan &plan, size_t index)
      : plan(plan), function(*plan.functions[index]),
        where(at("functions", index)) {}

  void check();

private:
  void checkRanges() const;
  void checkResults() const;
  void checkPlace(const std::string &path, uint64_t offset,
                  uint64_t bytes) const;
  void reach(size_t op);
  void checkFree(size_t op);
  bool isReserved(uint64_t begin, uint64_t end) const;
  void checkReserved(const plan::Buf &buf, size_t op) const;

  const StepPlan &plan;
  const plan::FunctionT &function;
  const std::string where;
  /// Ranges by the operations at which they end and begin.
  std::multimap<uint64_t, const plan::ReservedRange *> ends, begins;
  /// By offset, the ends of what is reserved now.
  std::multimap<uint64_t, uint64_t> now;
  size_t nextResult = 0;
};

void checkMultiple(const std::string &path, const char *what, uint64_t value) {
  if (value % packing::kPoolAlignment != 0)
    failCheck(path, std::string("expected ") + what + "a multiple of " +
                        std::to_string(packing::kPoolAlignment) + ", got " +
                        std::to_string(value));
}

void FunctionChecker::checkPlace(const std::string &path, uint64_t offset,
                                 uint64_t bytes) const {
  if (bytes == 0)
    failCheck(path, "expected bytes, got 0");
  checkMultiple(path, "an offset that is ", offset);
  if (offset < plan.stateBytes || offset + bytes > plan.deviceBytes)
    failCheck(
        path,
        "expected bytes between " + std::to_string(plan.stateBytes) +
            ", where states end, and " + std::to_string(plan.deviceBytes) +
            ", where the device arena does, got " + std::to_string(offset) +
            " to " + std::to_string(offset + bytes));
}

void FunctionChecker::checkRanges() const {
  for (size_t i = 0; i < function.reserved.size(); ++i) {
    const plan::ReservedRange &range = function.reserved[i];
    std::string path = where + "." + at("reserved", i);
    if (range.from() < function.first || range.to() > function.end ||
        range.from() >= range.to())
      failCheck(path, "expected a stretch of the function's operations, " +
                          std::to_string(function.first) + " to " +
                          std::to_string(function.end) + ", got " +
                          std::to_string(range.from()) + " to " +
                          std::to_string(range.to()));
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
      failCheck(path, "expected an operation from " + std::to_string(least) +
                          " on and below " + std::to_string(function.end) +
                          ", got " + std::to_string(result.op()));
    least = result.op();
    checkPlace(path, result.offset(), result.bytes());
  }
}

bool FunctionChecker::isReserved(uint64_t begin, uint64_t end) const {
  begin = std::max(begin, plan.stateBytes);
  for (auto [offset, to] : now)
    if (offset <= begin)
      begin = std::max(begin, to);
  return begin >= end;
}

void FunctionChecker::checkReserved(const plan::Buf &buf, size_t op) const {
  uint64_t begin = buf.offset();
  uint64_t end = begin + (plan.mesh.nodes - 1) * buf.nodeStride() +
                 (plan.mesh.locals - 1) * buf.localStride() + buf.bytes();
  if (buf.arena() == plan::Arena::device && buf.bytes() != 0 &&
      !isReserved(begin, end))
    failCheck(at("ops", op),
              "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                  " of the device arena are not reserved there, by "
                  "'" +
                  where +
                  ".reserved': results of operators may be "
                  "in them");
}

/// Brings `now` to where `op` runs.
void FunctionChecker::reach(size_t op) {
  for (auto it = ends.begin(); it != ends.end() && it->first <= op;
       it = ends.erase(it)) {
    auto [open, last] = now.equal_range(it->second->offset());
    while (open->second != it->second->offset() + it->second->bytes())
      ++open;
    now.erase(open);
  }
  for (auto it = begins.begin(); it != begins.end() && it->first <= op;
       it = begins.erase(it))
    now.emplace(it->second->offset(),
                it->second->offset() + it->second->bytes());
}

/// Results of `op` are where nothing is reserved.
void FunctionChecker::checkFree(size_t op) {
  for (; nextResult < function.results.size() &&
         function.results[nextResult].op() == op;
       ++nextResult) {
    uint64_t begin = function.results[nextResult].offset();
    uint64_t end = begin + function.results[nextResult].bytes();
    for (auto [offset, to] : now)
      if (offset < end && begin < to)
        failCheck(
            where + "." + at("results", nextResult),
            "bytes " + std::to_string(offset) + " to " + std::to_string(to) +
                " of the device arena are reserved where operation " +
                std::to_string(op) + " runs: they are not for its results");
  }
}

void FunctionChecker::check() {
  checkRanges();
  checkResults();
  for (const plan::ReservedRange &range : function.reserved) {
    begins.emplace(range.from(), &range);
    ends.emplace(range.to(), &range);
  }
  for (size_t op = function.first; op < function.end; ++op) {
    reach(op);
    checkFree(op);
    visitBody(*plan.ops[op], Regions(plan, [&](const plan::Buf &buf) {
      checkReserved(buf, op);
    }));
  }
}

/// The functions are those of a step, and their operations are all that there
/// are, each once.
void checkFamily(const StepPlan &plan) {
  using plan::Role;
  uint64_t next = 0;
  std::map<Role, size_t> roles;
  for (size_t i = 0; i < plan.functions.size(); ++i) {
    const plan::FunctionT &function = *plan.functions[i];
    std::string where = at("functions", i);
    if (!roles.emplace(function.role, i).second)
      failCheck(where, "'" + std::string(EnumNameRole(function.role)) +
                           "' is there twice");
    if (function.first != next || function.end < function.first)
      failCheck(where,
                "expected functions of operations that follow each other, "
                "got " +
                    std::to_string(function.first) + " to " +
                    std::to_string(function.end) + " behind " +
                    std::to_string(next));
    next = function.end;
  }
  checkEqual("functions", plan.ops.size(), next, " operations in functions");
  std::vector<Role> needed = {Role::init, Role::update};
  if (plan.microBatches == 1)
    needed.push_back(Role::only_microbatch);
  else
    needed.insert(needed.end(),
                  {Role::first_microbatch, Role::last_microbatch});
  if (plan.microBatches > 2)
    needed.push_back(Role::next_microbatch);
  for (Role role : needed)
    if (!roles.count(role))
      failCheck("functions", "'" + std::string(EnumNameRole(role)) +
                                 "' is missing; a step of " +
                                 std::to_string(plan.microBatches) +
                                 " micro-batches needs it");
}

void checkStates(const StepPlan &plan) {
  if (plan.stateBytes > plan.deviceBytes)
    failCheck("state_bytes", "expected at most the " +
                                 std::to_string(plan.deviceBytes) +
                                 " bytes of the device arena, got " +
                                 std::to_string(plan.stateBytes));
  checkMultiple("state_bytes", "", plan.stateBytes);
  for (size_t i = 0; i < plan.buckets.size(); ++i)
    for (const plan::State &state : plan.buckets[i]->states) {
      uint64_t end = state.buf().offset() + state.buf().bytes();
      if (state.buf().arena() == plan::Arena::device && end > plan.stateBytes)
        failCheck("state_bytes",
                  "expected all states in front of it, got one of " +
                      at("buckets", i) + " that ends at byte " +
                      std::to_string(end) + " of " +
                      std::to_string(plan.stateBytes));
    }
}

} // namespace

void checkFunctions(const StepPlan &plan) {
  checkFamily(plan);
  checkStates(plan);
  for (size_t i = 0; i < plan.functions.size(); ++i)
    FunctionChecker(plan, i).check();
}

} // namespace fcdp
