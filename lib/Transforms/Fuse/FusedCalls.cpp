// SPDX-License-Identifier: Apache-2.0

#include "Fuse/FusedCalls.h"

#include "Fuse/Contiguity.h"
#include "dialects/Fcdp/Kernels.h"
#include "fcdp/Analysis/Aliases.h"

#include "llvm/ADT/SetVector.h"

#include <limits>

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

/// Between the first and the last member of a cluster are at most so many
/// operations, which bounds the time to find clusters.
static constexpr size_t kMostDistance = 128;
/// A body has about ten operations for each of the costliest operators.
static constexpr size_t kMostMembers = 24;

static int64_t bytesOf(Value value) {
  return byteSize(cast<RankedTensorType>(value.getType()));
}

int64_t FusedCalls::savedBytes() const {
  int64_t saved = 0;
  for (const PointwiseCall &member : members) {
    for (Value operand : CallOp(member.call).getOperands())
      saved += bytesOf(operand);
    saved += bytesOf(CallOp(member.call).getResult(0));
  }
  for (Value operand : operands)
    saved -= bytesOf(operand);
  for (Value result : results)
    saved -= bytesOf(result);
  return saved;
}

void FusedCalls::copyAttributes(CallOp call) const {
  CallOp first = members.front().call;
  if (isRepeated(first))
    setRepeated(call);
  for (const PointwiseCall &member : members)
    if (std::optional<bool> recompute = getRecompute(member.call);
        recompute && (*recompute || !getRecompute(call)))
      setRecompute(call, *recompute);
}

namespace {
/// Grows the clusters of one function.
class FusionFinder {
public:
  explicit FusionFinder(func::FuncOp function) : function(function) {}

  void fuse(llvm::function_ref<void(const FusedCalls &)> replace);

private:
  using Members = SmallVector<Operation *>;

  std::optional<FusedCalls> describe(const Members &members);
  /// The order of operations near a cluster, before and after its members are
  /// in one place.
  struct Window {
    Operation *place;
    SmallVector<Operation *> ops;
  };
  std::optional<Window> findWindow(const FusedCalls &cluster);
  bool keepsMemory(const FusedCalls &cluster, const Window &window);
  bool keepsGathers(const FusedCalls &cluster, const Window &window);
  bool tryMerge(Operation *into, Operation *other);
  void grow(CallOp call);

  func::FuncOp function;
  Contiguity contiguity;
  /// The pointwise calls on contiguous tensors.
  llvm::DenseMap<Operation *, PointwiseCall> pointwise;
  /// The cluster of each, by number, and the members of each number, in order.
  llvm::DenseMap<Operation *, size_t> numbers;
  std::vector<Members> clusters;
};
} // namespace

static bool readsParameter(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value value) {
    Operation *from = value.getDefiningOp();
    while (from && isView(from))
      from = from->getOperand(0).getDefiningOp();
    return isa_and_present<ReadParameterOp>(from);
  });
}

/// Returns whether passes look for the cast, of a parameter before its gather
/// or of a gradient before its reduction.
static bool isOtherPassesCast(CallOp call) {
  if (call.getCallee() != "aten._to_copy.default")
    return false;
  return readsParameter(call) ||
         llvm::any_of(collectMemoryUsers(call.getResult(0)),
                      llvm::IsaPred<GradientOp>);
}

/// Returns whether calls with these attributes may become one.
static bool areAlike(Operation *a, Operation *b) {
  for (Operation *op : {a, b})
    for (NamedAttribute attr : op->getDiscardableAttrs())
      if (attr.getName() != FcdpDialect::RecomputeAttrHelper::getNameStr() &&
          attr.getName() != FcdpDialect::RepeatedAttrHelper::getNameStr() &&
          a->getDiscardableAttr(attr.getName()) !=
              b->getDiscardableAttr(attr.getName()))
        return false;
  return isRepeated(a) == isRepeated(b);
}

/// Returns the operands and results of a cluster, or none if no kernel can have
/// them.
std::optional<FusedCalls> FusionFinder::describe(const Members &members) {
  FusedCalls cluster;
  llvm::SmallPtrSet<Operation *, 8> inside(members.begin(), members.end());
  auto shapeOf = [](Operation *op) {
    return cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  };
  int64_t width = 0;
  bool hasIdentity = false;
  llvm::DenseMap<Value, KernelMap> maps;
  for (Operation *op : members) {
    const PointwiseCall &member = pointwise.find(op)->second;
    if (shapeOf(op) != shapeOf(members.front()) ||
        !areAlike(op, members.front()) ||
        (member.width != 0 && width != 0 && member.width != width))
      return std::nullopt;
    width = std::max(width, member.width);
    cluster.members.push_back(member);
    for (auto [operand, map] :
         llvm::zip_equal(op->getOperands(), member.maps)) {
      if (inside.contains(operand.getDefiningOp())) {
        if (map != KernelMap::identity)
          return std::nullopt;
        continue;
      }
      if (!maps.try_emplace(operand, map).second)
        continue;
      hasIdentity |= map == KernelMap::identity;
      cluster.operands.push_back(operand);
      cluster.maps.push_back(map);
    }
    if (llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return !inside.contains(user); }))
      cluster.results.push_back(op->getResult(0));
  }
  if (!hasIdentity || cluster.results.empty() ||
      cluster.operands.size() + cluster.results.size() > kMostKernelTensors)
    return std::nullopt;
  return cluster;
}

/// Finds the first place at which all operands exist, at or after the first
/// member, and checks that it is before all users of results.
std::optional<FusionFinder::Window>
FusionFinder::findWindow(const FusedCalls &cluster) {
  llvm::SmallPtrSet<Operation *, 8> inside;
  for (const PointwiseCall &member : cluster.members)
    inside.insert(member.call);
  Operation *first = CallOp(cluster.members.front().call),
            *last = CallOp(cluster.members.back().call);
  Window window;
  window.place = first;
  for (Value operand : cluster.operands)
    if (Operation *from = operand.getDefiningOp();
        from && !from->isBeforeInBlock(window.place))
      window.place = from->getNextNode();
  for (Value result : cluster.results)
    for (Operation *user : result.getUsers())
      if (!inside.contains(user) && user->isBeforeInBlock(window.place))
        return std::nullopt;
  Operation *end = last->isBeforeInBlock(window.place) ? window.place : last;
  for (Operation *op = first;; op = op->getNextNode()) {
    window.ops.push_back(op);
    // No read of a buffer may be moved over a write to it.
    if (window.ops.size() > kMostDistance ||
        (isa<WriteBufferOp>(op) && op != end))
      return std::nullopt;
    if (op == end)
      return window;
  }
}

/// Returns whether no parameter is read between two reads of another one, so
/// that each is gathered as often as before.
bool FusionFinder::keepsGathers(const FusedCalls &cluster,
                                const Window &window) {
  llvm::SmallPtrSet<Operation *, 8> inside;
  bool reads = false;
  for (const PointwiseCall &member : cluster.members) {
    inside.insert(member.call);
    reads |= readsParameter(member.call);
  }
  return !reads || llvm::none_of(window.ops, [&](Operation *op) {
    return op != window.place && !inside.contains(op) && readsParameter(op);
  });
}

/// Returns whether the values of the cluster take no more bytes at any time
/// than before.
bool FusionFinder::keepsMemory(const FusedCalls &cluster,
                               const Window &window) {
  constexpr size_t never = std::numeric_limits<size_t>::max();
  llvm::DenseMap<Operation *, size_t> positions;
  for (auto [i, op] : llvm::enumerate(window.ops))
    positions[op] = i;
  llvm::SmallPtrSet<Operation *, 8> inside;
  llvm::SetVector<Value> values(cluster.operands.begin(),
                                cluster.operands.end());
  for (const PointwiseCall &member : cluster.members) {
    inside.insert(member.call);
    values.insert(CallOp(member.call).getResult(0));
  }
  size_t place = positions.lookup(window.place);
  SmallVector<int64_t> change(window.ops.size());
  auto count = [&](size_t from, size_t to, int64_t bytes) {
    for (size_t i = from; i < change.size() && i <= to; ++i)
      change[i] += bytes;
  };
  for (Value value : values) {
    Operation *from = value.getDefiningOp();
    bool isMember = inside.contains(from);
    // Views keep the memory of their operand.
    while (from && isView(from) && !isMember)
      from = from->getOperand(0).getDefiningOp();
    if (isa_and_present<ReadParameterOp, ReadBufferOp, ReadInputOp>(from))
      continue;
    Value memory = from ? value : Value();
    if (!memory)
      continue;
    if (!isMember)
      memory = from->getNumResults() == 1 ? from->getResult(0) : value;
    size_t before = positions.lookup(from), lastOld = 0, lastNew = 0;
    bool isUsedOutside = false;
    for (Operation *user : collectMemoryUsers(memory)) {
      auto found = positions.find(user);
      bool isUserInside = inside.contains(user);
      isUsedOutside |= !isUserInside;
      size_t at = found != positions.end()                    ? found->second
                  : user->isBeforeInBlock(window.ops.front()) ? 0
                                                              : never;
      lastOld = std::max(lastOld, at);
      lastNew = std::max(lastNew, isUserInside ? place : at);
    }
    int64_t bytes = bytesOf(memory);
    count(isMember ? before : 0, lastOld, -bytes);
    if (!isMember)
      count(0, lastNew, bytes);
    else if (isUsedOutside)
      count(place, std::max(lastNew, place), bytes);
  }
  return llvm::all_of(change, [](int64_t bytes) { return bytes <= 0; });
}

/// Joins the clusters of two calls if one kernel can compute them.
bool FusionFinder::tryMerge(Operation *into, Operation *other) {
  size_t a = numbers.lookup(into), b = numbers.lookup(other);
  if (a == b || clusters[a].size() + clusters[b].size() > kMostMembers)
    return false;
  Members members = clusters[a];
  llvm::append_range(members, clusters[b]);
  llvm::sort(members,
             [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
  std::optional<FusedCalls> cluster = describe(members);
  if (!cluster)
    return false;
  std::optional<Window> window = findWindow(*cluster);
  if (!window || !keepsGathers(*cluster, *window) ||
      !keepsMemory(*cluster, *window))
    return false;
  Operation *place = window->place;
  while (llvm::is_contained(members, place))
    place = place->getNextNode();
  for (Operation *op : members)
    op->moveBefore(place);
  for (Operation *op : members)
    numbers[op] = a;
  clusters[a] = std::move(members);
  clusters[b].clear();
  return true;
}

/// Joins the call to the clusters of its operands, and of calls that read them,
/// too.
void FusionFinder::grow(CallOp call) {
  for (Value operand : call.getOperands())
    if (Operation *from = operand.getDefiningOp(); numbers.contains(from))
      tryMerge(call, from);
  for (Value operand : llvm::to_vector(call.getOperands()))
    for (Operation *user : llvm::to_vector(operand.getUsers()))
      if (numbers.contains(user) && user->isBeforeInBlock(call))
        tryMerge(call, user);
}

void FusionFinder::fuse(llvm::function_ref<void(const FusedCalls &)> replace) {
  SmallVector<CallOp> calls;
  for (auto call : function.getOps<CallOp>()) {
    std::optional<PointwiseCall> matched = matchPointwise(call);
    if (!matched || isOtherPassesCast(call) ||
        !llvm::all_of(call.getOperands(), [&](Value operand) {
          return contiguity.isContiguous(operand);
        }))
      continue;
    pointwise.try_emplace(call, *matched);
    numbers[call] = clusters.size();
    clusters.push_back({call});
    calls.push_back(call);
  }
  for (CallOp call : calls)
    grow(call);
  // Operands may be results of clusters that were replaced before.
  for (const Members &members : clusters)
    if (members.size() > 1)
      replace(*describe(members));
}

void fcdp::fuseCalls(func::FuncOp function,
                     llvm::function_ref<void(const FusedCalls &)> replace) {
  FusionFinder(function).fuse(replace);
}
