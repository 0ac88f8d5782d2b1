// SPDX-License-Identifier: Apache-2.0
//
// The manifest's checks of what is held of the device arena: every operation
// must find the places that it names held, or they would be lent to others.
#include "core/Packing.h"
#include "plan/Manifest.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace fcdp {

namespace {

[[noreturn]] void fail(const std::string &where, const std::string &message) {
  throw std::runtime_error("manifest." + where + ": " + message);
}

/// Calls `visit` for each place in the arenas that an operation names.
template <typename Visit>
class Places {
public:
  Places(const Manifest &m, Visit visit) : m(m), visit(visit) {}

  void operator()(const ops::AtenCall &op) const {
    for (const auto &[name, value] : op.args) {
      if (auto *tensor = std::get_if<arg::TensorSlot>(&value))
        slot(tensor->slot);
      else if (auto *tensors = std::get_if<arg::TensorSlots>(&value))
        for (int64_t one : tensors->slots)
          if (one >= 0)
            slot(one);
    }
  }
  void operator()(const ops::WriteBuffer &op) const { slot(op.slot); }
  void operator()(const ops::Loss &op) const { slot(op.slot); }
  void operator()(const ops::Cast &op) const { all({&op.in, &op.out}); }
  void operator()(const ops::Pack &op) const {
    for (const ops::Pack::Member &member : op.members) {
      slot(member.source);
      slot(member.planned);
    }
    for (const Buf &buf : op.zero)
      visit(buf);
  }
  void operator()(const ops::Accumulate &op) const { all({&op.in, &op.out}); }
  void operator()(const ops::Add &op) const { all({&op.sum, &op.in, &op.out}); }
  void operator()(const ops::ClipGradients &) const {} // states
  void operator()(const ops::ShardUpdate &) const {}   // states
  void operator()(const ops::AllGather &op) const { all({&op.in, &op.out}); }
  void operator()(const ops::ReduceScatter &op) const {
    all({&op.in, &op.out});
    if (op.scratch)
      visit(*op.scratch);
  }
  void operator()(const ops::CacheCopy &op) const { all({&op.in, &op.out}); }
  void operator()(const ops::Event &) const {}

private:
  void slot(size_t index) const {
    if (auto *planned = std::get_if<PlannedSlot>(&m.slots[index]))
      visit(planned->buf);
  }
  void all(std::initializer_list<const Buf *> bufs) const {
    for (const Buf *buf : bufs)
      visit(*buf);
  }

  const Manifest &m;
  Visit visit;
};

/// Checks one function.
class Checker {
public:
  Checker(const Manifest &m, std::string name, const FunctionSpec &spec)
      : m(m), name(std::move(name)), spec(spec) {}

  void checkRanges() const;
  void checkResults() const;
  void checkOps();

private:
  void checkPlace(const std::string &where, uint64_t offset,
                  uint64_t bytes) const;
  void reach(size_t op);
  void checkLent(size_t op);
  bool isHeld(uint64_t begin, uint64_t end) const;
  void checkHeld(const Buf &buf, size_t op) const;

  const Manifest &m;
  const std::string name;
  const FunctionSpec &spec;
  /// By offset, the ends of what is held now.
  std::multimap<uint64_t, uint64_t> now;
  size_t nextMoment = 0, nextResult = 0;
};

void Checker::checkRanges() const {
  const std::vector<HeldRange> &ranges = spec.held.ranges;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const HeldRange &range = ranges[i];
    std::string where =
        "held.functions." + name + ".ranges[" + std::to_string(i) + "]";
    if (range.from < spec.first || range.to > spec.end ||
        range.from >= range.to)
      fail(where, "expected a stretch of the function's operations, " +
                      std::to_string(spec.first) + " to " +
                      std::to_string(spec.end) + ", got " +
                      std::to_string(range.from) + " to " +
                      std::to_string(range.to));
    checkPlace(where, range.offset, range.bytes);
    if (range.bytes % packing::kPoolAlignment != 0)
      fail(where, "expected bytes that are a multiple of " +
                      std::to_string(packing::kPoolAlignment) + ", got " +
                      std::to_string(range.bytes));
  }
}

void Checker::checkPlace(const std::string &where, uint64_t offset,
                         uint64_t bytes) const {
  if (bytes == 0)
    fail(where, "expected bytes, got 0");
  if (offset % packing::kPoolAlignment != 0)
    fail(where, "expected an offset that is a multiple of " +
                    std::to_string(packing::kPoolAlignment) + ", got " +
                    std::to_string(offset));
  if (offset < m.stateBytes || offset + bytes > m.deviceBytes)
    fail(where, "expected bytes between " + std::to_string(m.stateBytes) +
                    ", where states end, and " + std::to_string(m.deviceBytes) +
                    ", where the device arena does, got " +
                    std::to_string(offset) + " to " +
                    std::to_string(offset + bytes));
}

void Checker::checkResults() const {
  size_t least = spec.first;
  for (size_t i = 0; i < spec.results.size(); ++i) {
    const ResultPlace &result = spec.results[i];
    std::string where =
        "held.functions." + name + ".results[" + std::to_string(i) + "]";
    if (result.op < least || result.op >= spec.end)
      fail(where, "expected an operation from " + std::to_string(least) +
                      " on and below " + std::to_string(spec.end) + ", got " +
                      std::to_string(result.op));
    least = result.op;
    checkPlace(where, result.offset, result.bytes);
  }
}

bool Checker::isHeld(uint64_t begin, uint64_t end) const {
  begin = std::max(begin, m.stateBytes);
  for (auto [offset, to] : now)
    if (offset <= begin)
      begin = std::max(begin, to);
  return begin >= end;
}

void Checker::checkHeld(const Buf &buf, size_t op) const {
  uint64_t begin = buf.offset;
  uint64_t end = begin + (m.mesh.nodes - 1) * buf.nodeStride +
                 (m.mesh.locals - 1) * buf.localStride + buf.bytes;
  if (buf.arena == Arena::Device && buf.bytes != 0 && !isHeld(begin, end))
    fail("ops[" + std::to_string(op) + "]",
         "bytes " + std::to_string(begin) + " to " + std::to_string(end) +
             " of the device arena are not held there, by 'held.functions." +
             name + "': results of operators may be in them");
}

/// Brings `now` to where `op` runs.
void Checker::reach(size_t op) {
  const std::vector<HeldMoment> &moments = spec.held.moments;
  for (; nextMoment < moments.size() && moments[nextMoment].op <= op;
       ++nextMoment) {
    for (uint32_t i : moments[nextMoment].ends) {
      const HeldRange &range = spec.held.ranges[i];
      auto [it, last] = now.equal_range(range.offset);
      while (it->second != range.offset + range.bytes)
        ++it;
      now.erase(it);
    }
    for (uint32_t i : moments[nextMoment].begins) {
      const HeldRange &range = spec.held.ranges[i];
      now.emplace(range.offset, range.offset + range.bytes);
    }
  }
}

/// Results of `op` are where nothing is held.
void Checker::checkLent(size_t op) {
  for (; nextResult < spec.results.size() && spec.results[nextResult].op == op;
       ++nextResult) {
    uint64_t begin = spec.results[nextResult].offset;
    uint64_t end = begin + spec.results[nextResult].bytes;
    for (auto [offset, to] : now)
      if (offset < end && begin < to)
        fail("held.functions." + name + ".results[" +
                 std::to_string(nextResult) + "]",
             "bytes " + std::to_string(offset) + " to " + std::to_string(to) +
                 " of the device arena are held where operation " +
                 std::to_string(op) + " runs: they are not for its results");
  }
}

void Checker::checkOps() {
  for (size_t op = spec.first; op < spec.end; ++op) {
    reach(op);
    checkLent(op);
    std::visit(Places(m, [&](const Buf &buf) { checkHeld(buf, op); }),
               m.ops[op].body);
  }
}

/// The functions' operations are all that there are, each once.
void checkFunctions(const Manifest &m) {
  for (const std::string &function : m.functions)
    if (!m.specs.count(function))
      fail("held.functions", "'" + function + "' is missing");
  std::vector<std::pair<size_t, size_t>> all;
  for (const auto &[name, spec] : m.specs)
    all.emplace_back(spec.first, spec.end);
  std::sort(all.begin(), all.end());
  size_t next = 0;
  for (auto [first, end] : all) {
    if (first != next || end < first)
      fail("held.functions",
           "expected functions of operations that follow each other, got " +
               std::to_string(first) + " to " + std::to_string(end) +
               " behind " + std::to_string(next));
    next = end;
  }
  if (next != m.ops.size())
    fail("held.functions", "expected functions of " +
                               std::to_string(m.ops.size()) +
                               " operations, got " + std::to_string(next));
}

void checkStates(const Manifest &m) {
  for (size_t i = 0; i < m.buckets.size(); ++i) {
    const Bucket &b = m.buckets[i];
    for (const auto *state :
         {&b.shard, &b.grad, &b.expAvg, &b.expAvgSq, &b.momentumBuffer,
          &b.resident, &b.nodeGrad, &b.fullGrad})
      if (*state && (*state)->arena == Arena::Device &&
          (*state)->offset + (*state)->bytes > m.stateBytes)
        fail("held.states",
             "expected all states in front of it, got one of buckets[" +
                 std::to_string(i) + "] that ends at byte " +
                 std::to_string((*state)->offset + (*state)->bytes) + " of " +
                 std::to_string(m.stateBytes));
  }
}

} // namespace

void checkHeldMemory(const Manifest &m) {
  if (m.stateBytes > m.deviceBytes)
    fail("held.states",
         "expected at most the " + std::to_string(m.deviceBytes) +
             " bytes of the device arena, got " + std::to_string(m.stateBytes));
  if (m.stateBytes == m.deviceBytes && m.specs.empty())
    return; // nothing is lent
  if (m.stateBytes % packing::kPoolAlignment != 0)
    fail("held.states", "expected a multiple of " +
                            std::to_string(packing::kPoolAlignment) + ", got " +
                            std::to_string(m.stateBytes));
  checkFunctions(m);
  checkStates(m);
  for (const auto &[name, spec] : m.specs) {
    Checker checker(m, name, spec);
    checker.checkRanges();
    checker.checkResults();
    checker.checkOps();
  }
}

} // namespace fcdp
