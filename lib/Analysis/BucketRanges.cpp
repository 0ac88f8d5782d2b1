// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/BucketRanges.h"

#include "fcdp/Analysis/Aliases.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"

#include <map>

using namespace mlir;
using namespace fcdp;

namespace {
/// The first and last operation of a span in one block.
struct Span {
  Operation *first, *last;
};

struct Use {
  Operation *op;
  StringAttr unit;
};
} // namespace

/// Collects the operations that use `value`, directly or through views, into
/// `users`.
static void collectUsers(Value value, SmallVectorImpl<Operation *> &users) {
  for (Operation *user : value.getUsers()) {
    if (!isView(user)) {
      users.push_back(user);
      continue;
    }
    for (Value view : user->getResults())
      collectUsers(view, users);
  }
}

static void extend(Span &span, Operation *op) {
  if (!span.last || span.last->isBeforeInBlock(op))
    span.last = op;
}

/// Returns whether a unit that is not among `units` is used between `begin` and
/// `end`.
static bool isInterrupted(Operation *begin, Operation *end,
                          const llvm::DenseSet<StringAttr> &units,
                          ArrayRef<Use> uses) {
  return llvm::any_of(uses, [&](const Use &use) {
    return !units.contains(use.unit) && begin->isBeforeInBlock(use.op) &&
           use.op->isBeforeInBlock(end);
  });
}

llvm::DenseMap<Operation *, int64_t>
fcdp::findBucketRanges(ArrayRef<SourceGather> gathers) {
  llvm::DenseMap<Operation *, int64_t> ranges;
  llvm::MapVector<Operation *, std::map<int64_t, Span>> buckets;
  llvm::DenseMap<Operation *, llvm::DenseSet<StringAttr>> units;
  SmallVector<Use> uses;
  for (auto [gather, unit, bucket] : gathers) {
    units[bucket].insert(unit);
    auto [it, isFirst] = buckets[bucket].try_emplace(
        static_cast<int64_t>(*gather.getRange()), Span{gather, gather});
    SmallVector<Operation *> users;
    collectUsers(gather.getResult(), users);
    for (Operation *user : users) {
      uses.push_back({user, unit});
      extend(it->second, user);
    }
  }

  llvm::DenseMap<std::pair<Operation *, int64_t>, int64_t> merged;
  for (auto &[bucket, spans] : buckets) {
    const llvm::DenseSet<StringAttr> &ofBucket = units[bucket];
    if (ofBucket.size() == 1)
      continue;
    int64_t index = -1;
    Span current{};
    for (auto &[range, span] : spans) {
      if (!current.last ||
          (current.last->isBeforeInBlock(span.first) &&
           isInterrupted(current.last, span.first, ofBucket, uses))) {
        ++index;
        current = span;
      }
      extend(current, span.last);
      merged[{bucket, range}] = index;
    }
  }
  for (auto [gather, unit, bucket] : gathers) {
    auto range = static_cast<int64_t>(*gather.getRange());
    auto it = merged.find({bucket, range});
    ranges[gather] = it == merged.end() ? range : it->second;
  }
  return ranges;
}
