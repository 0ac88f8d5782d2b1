// SPDX-License-Identifier: Apache-2.0

#include "PlanSymbols.h"

#include "PlanValues.h"

using namespace mlir;
using namespace fcdp;

/// Returns the one optimizer of the module's updates.
static FailureOr<Attribute> findOptimizer(ModuleOp module) {
  ShardUpdateOp first;
  WalkResult result = module.walk([&](ShardUpdateOp update) {
    if (!first)
      first = update;
    if (update.getOptimizer() == first.getOptimizer())
      return WalkResult::advance();
    InFlightDiagnostic diag =
        update.emitOpError("expected the same optimizer in all updates");
    diag.attachNote(first.getLoc()) << "the first is here";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  if (!first)
    return module.emitError("nothing is trained: expected at least one "
                            "fcdp.shard_update");
  return first.getOptimizer();
}

static LogicalResult fillOptimizer(plan::OptimizerUnion &out, ModuleOp module) {
  FailureOr<Attribute> optimizer = findOptimizer(module);
  if (failed(optimizer))
    return failure();
  if (auto adamw = dyn_cast<AdamWAttr>(*optimizer)) {
    plan::AdamWT table;
    table.lr = adamw.getLr().getValueAsDouble();
    table.beta1 = adamw.getBeta1().getValueAsDouble();
    table.beta2 = adamw.getBeta2().getValueAsDouble();
    table.eps = adamw.getEps().getValueAsDouble();
    table.weightDecay = adamw.getWeightDecay().getValueAsDouble();
    out.Set(std::move(table));
    return success();
  }
  auto sgd = cast<SGDAttr>(*optimizer);
  plan::SgdT table;
  table.lr = sgd.getLr().getValueAsDouble();
  table.momentum = sgd.getMomentum().getValueAsDouble();
  table.dampening = sgd.getDampening().getValueAsDouble();
  table.weightDecay = sgd.getWeightDecay().getValueAsDouble();
  table.nesterov = sgd.getNesterov();
  out.Set(std::move(table));
  return success();
}

namespace {
/// Appends tables to a plan's vectors.
class SymbolFiller {
public:
  SymbolFiller(plan::PlanT &plan, ModuleOp module, const Places &places,
               const ConstantTable &constants);

  LogicalResult add(ParameterOp parameter);
  LogicalResult add(BucketOp bucket);
  LogicalResult add(BufferOp buffer);
  LogicalResult add(InputOp input);

private:
  LogicalResult fillStates(std::vector<plan::State> &out, BucketOp bucket);

  plan::PlanT &plan;
  ModuleOp module;
  const Places &places;
  const ConstantTable &constants;
  struct Membership {
    int64_t bucket, offset;
  };
  llvm::DenseMap<StringAttr, Membership> memberships;
  /// The type in which gradients of a bucket are reduced.
  llvm::DenseMap<StringAttr, Type> reduceTypes;
};
} // namespace

SymbolFiller::SymbolFiller(plan::PlanT &plan, ModuleOp module,
                           const Places &places, const ConstantTable &constants)
    : plan(plan), module(module), places(places), constants(constants) {
  for (auto [index, bucket] : llvm::enumerate(module.getOps<BucketOp>()))
    for (MemberAttr member : bucket.getMembers().getAsRange<MemberAttr>())
      memberships[member.getParameter().getAttr()] = {
          static_cast<int64_t>(index), member.getOffset()};
  module.walk([&](ReduceScatterOp reduce) {
    // The first reduction is of the packed gradients.
    reduceTypes.try_emplace(
        reduce.getSourceAttr().getAttr(),
        cast<RankedTensorType>(reduce.getInput().getType()).getElementType());
  });
}

/// Appends a table to `tables`.
template <typename TableTy>
static TableTy &append(std::vector<std::unique_ptr<TableTy>> &tables) {
  return *tables.emplace_back(std::make_unique<TableTy>());
}

/// Sets the fields that everything with a tensor's type has.
template <typename TableTy>
static LogicalResult setType(TableTy &out, RankedTensorType type,
                             Operation *op) {
  out.shape = toShape(type);
  return setDType(out.dtype, type.getElementType(), op);
}

LogicalResult SymbolFiller::add(ParameterOp parameter) {
  auto membership = memberships.find(parameter.getSymNameAttr());
  if (membership == memberships.end())
    return parameter.emitOpError("expected to be a member of a bucket");
  plan::ParameterT &out = append(plan.parameters);
  for (StringAttr name : parameter.getNames().getAsRange<StringAttr>())
    out.names.push_back(name.str());
  out.trainable = parameter.getTrainable();
  out.bucket = membership->second.bucket;
  out.offsetElements = membership->second.offset;
  return setType(out, parameter.getTensorType(), parameter);
}

LogicalResult SymbolFiller::fillStates(std::vector<plan::State> &out,
                                       BucketOp bucket) {
  for (unsigned i = 0; i <= getMaxEnumValForStateRole(); ++i) {
    auto role = static_cast<StateRole>(i);
    if (role == StateRole::prefetched)
      continue; // a place for some of the time, which gathers name
    StateOp state = places.lookup(bucket.getSymNameAttr(), role);
    if (!state)
      continue;
    plan::DType dtype;
    if (failed(setDType(dtype, state.getTensorType().getElementType(), state)))
      return failure();
    StringRef name =
        role == StateRole::cache ? "host" : stringifyStateRole(role);
    out.emplace_back(findByName(name, plan::EnumValuesStateRole(),
                                plan::EnumNamesStateRole()),
                     dtype, toBuf(*state.getBuffer()));
  }
  return success();
}

LogicalResult SymbolFiller::add(BucketOp bucket) {
  plan::BucketT &out = append(plan.buckets);
  out.name = bucket.getSymName().str();
  out.unit = bucket.getUnit().str();
  out.trainable = bucket.getTrainable();
  out.elements = bucket.getElements();
  out.sharding =
      findByName(stringifySharding(bucket.getSharding()),
                 plan::EnumValuesSharding(), plan::EnumNamesSharding());
  out.shardElements =
      getStateType(bucket, StateRole::shard, getMesh(module)).getNumElements();
  if (failed(setDType(out.storage, bucket.getStorage(), bucket)) ||
      failed(setDType(out.wire, bucket.getWire(), bucket)))
    return failure();
  if (Type reduce = reduceTypes.lookup(bucket.getSymNameAttr()))
    if (failed(setDType(out.reduce.emplace(), reduce, bucket)))
      return failure();
  return fillStates(out.states, bucket);
}

LogicalResult SymbolFiller::add(BufferOp buffer) {
  plan::BufferT &out = append(plan.buffers);
  out.name = buffer.getName().str();
  out.persistent = buffer.getPersistent();
  out.mutable_ = buffer.getMutableBuffer();
  if (std::optional<int64_t> offset = constants.lookup(buffer))
    out.constantOffset = *offset;
  return setType(out, cast<RankedTensorType>(buffer.getType()), buffer);
}

LogicalResult SymbolFiller::add(InputOp input) {
  plan::InputT &out = append(plan.inputs);
  out.name = input.getName().str();
  if (std::optional<uint64_t> limit = input.getLimit())
    out.indexLimit = *limit;
  if (std::optional<uint64_t> ignored = input.getIgnore())
    out.ignoreIndex = static_cast<int64_t>(*ignored);
  return setType(out, cast<RankedTensorType>(input.getType()), input);
}

LogicalResult fcdp::fillSymbols(plan::PlanT &plan, ModuleOp module,
                                const Places &places,
                                const ConstantTable &constants) {
  if (failed(fillOptimizer(plan.optimizer, module)))
    return failure();
  SymbolFiller filler(plan, module, places, constants);
  auto addAll = [&](auto ops) {
    for (auto op : ops)
      if (failed(filler.add(op)))
        return failure();
    return success();
  };
  return success(succeeded(addAll(module.getOps<ParameterOp>())) &&
                 succeeded(addAll(module.getOps<BucketOp>())) &&
                 succeeded(addAll(module.getOps<BufferOp>())) &&
                 succeeded(addAll(module.getOps<InputOp>())));
}
