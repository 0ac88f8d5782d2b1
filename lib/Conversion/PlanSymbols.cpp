// SPDX-License-Identifier: Apache-2.0

#include "PlanParts.h"

#include "PlanValues.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Conversion/ConstantReader.h"

using namespace mlir;
using namespace fcdp;

UpdateOpInterface fcdp::findFirstUpdate(ModuleOp module) {
  UpdateOpInterface first;
  module.walk([&](UpdateOpInterface update) {
    if (!first || (update.getSettings().getNeededLayout() &&
                   !first.getSettings().getNeededLayout()))
      first = update;
  });
  return first;
}

/// Returns the optimizer of the job. A module may have another one besides one
/// that needs a layout. If it only has evaluations, returns an optimizer that
/// would change nothing.
static FailureOr<Attribute> findOptimizer(ModuleOp module) {
  UpdateOpInterface first = findFirstUpdate(module), other;
  WalkResult result = module.walk([&](UpdateOpInterface update) {
    if (update.getOptimizer() == first.getOptimizer())
      return WalkResult::advance();
    bool isMixed = first.getSettings().getNeededLayout() &&
                   !update.getSettings().getNeededLayout();
    if (!other && isMixed)
      other = update;
    if (other && update.getOptimizer() == other.getOptimizer())
      return WalkResult::advance();
    InFlightDiagnostic diag =
        update->emitOpError("expected the same optimizer in all updates");
    diag.attachNote((isMixed ? other : first)->getLoc()) << "the first is here";
    return WalkResult::interrupt();
  });
  if (result.wasInterrupted())
    return failure();
  if (!first && runsBetweenSteps(module)) {
    auto zero = FloatAttr::get(Float64Type::get(module.getContext()), 0.0);
    return Attribute(SGDAttr::get(module.getContext(), zero, zero, zero, zero,
                                  /*nesterov=*/false));
  }
  if (!first)
    return module.emitError("nothing is trained: expected at least one "
                            "fcdp.shard_update");
  return first.getOptimizer();
}

/// Sets a field of an optimizer's table to the value of its attribute. Null
/// leaves out the field.
template <typename Field, typename Value>
static void setField(Field &field, Value value) {
  if constexpr (!std::is_same_v<Value, FloatAttr>)
    field = static_cast<Field>(value);
  else if (value)
    field = value.getValueAsDouble();
}

namespace {
/// An optimizer, whose record is in FcdpOptimizers.td.
struct OptimizerPlanRow {
  unsigned index;
  const char *name;
  /// Fills the table in the plan.
  void (*fill)(Attribute optimizer, plan::OptimizerUnion &out);
};
#define GET_OptimizerPlanTable_IMPL
#include "dialects/Fcdp/FcdpTables.inc"
} // namespace

void fcdp::setOptimizer(plan::OptimizerUnion &out, Attribute optimizer) {
  StringRef name = cast<OptimizerAttrInterface>(optimizer).getName();
  for (const OptimizerPlanRow &row : OptimizerPlanTable)
    if (name == row.name)
      return row.fill(optimizer, out);
  llvm_unreachable("an optimizer without a record");
}

static LogicalResult fillOptimizer(plan::OptimizerUnion &out, ModuleOp module) {
  FailureOr<Attribute> optimizer = findOptimizer(module);
  if (failed(optimizer))
    return failure();
  setOptimizer(out, *optimizer);
  return success();
}

/// Returns the index of a group in the plan.
static uint32_t addGroup(plan::PlanT &plan, GroupAttr group) {
  double lr = group.getLr().getValueAsDouble();
  double weightDecay = group.getWeightDecay().getValueAsDouble();
  auto found = llvm::find_if(plan.groups, [&](const auto &made) {
    return made->lrFactor == lr && made->weightDecay == weightDecay;
  });
  size_t index = found - plan.groups.begin();
  if (index == plan.groups.size()) {
    plan::GroupT &out = append(plan.groups);
    out.lrFactor = lr;
    out.weightDecay = weightDecay;
  }
  return index;
}

/// Describes the matrix that a parameter is packed from.
static LogicalResult setPacked(plan::ParameterT &out, ParameterOp parameter) {
  std::optional<PackedAttr> packed = parameter.getPacked();
  if (!packed)
    return success();
  out.packed = std::make_unique<plan::PackedT>();
  out.packed->packing = packed->getPacking() == Packing::nf4
                            ? plan::Packing::nf4
                            : plan::Packing::int8;
  out.packed->transposed = packed->getTransposed();
  return setType(*out.packed, packed->getWhole(), parameter);
}

/// Describes the parameters and their places in buckets.
static LogicalResult fillParameters(plan::PlanT &plan, ModuleOp module) {
  llvm::DenseMap<StringAttr, std::pair<uint32_t, uint64_t>> memberships;
  for (auto [index, bucket] : llvm::enumerate(module.getOps<BucketOp>()))
    for (auto member : bucket.getMembers().getAsRange<MemberAttr>())
      memberships[member.getParameter().getAttr()] = {index,
                                                      member.getOffset()};
  for (auto parameter : module.getOps<ParameterOp>()) {
    auto membership = memberships.find(parameter.getSymNameAttr());
    if (membership == memberships.end())
      return parameter.emitOpError("expected to be a member of a bucket");
    plan::ParameterT &out = append(plan.parameters);
    for (StringAttr name : parameter.getNames().getAsRange<StringAttr>())
      out.names.push_back(name.str());
    out.trainable = parameter.getTrainable();
    std::tie(out.bucket, out.offsetElements) = membership->second;
    if (parameter.getGroup())
      out.group = addGroup(plan, *parameter.getGroup());
    if (failed(setPacked(out, parameter)))
      return failure();
    if (failed(setType(out, parameter.getTensorType(), parameter)))
      return failure();
  }
  return success();
}

static LogicalResult fillStates(std::vector<plan::State> &out, BucketOp bucket,
                                const Places &places) {
  for (size_t i = 0; i < kNumStateRoles; ++i) {
    auto role = static_cast<StateRole>(i);
    if (!getRecord(role).isInPlan)
      continue;
    StateOp state = places.lookup(bucket.getSymNameAttr(), role);
    if (!state)
      continue;
    plan::DType dtype;
    if (failed(setDType(dtype, state.getTensorType().getElementType(), state)))
      return failure();
    out.emplace_back(findByName<plan::StateRole>(stringifyStateRole(role),
                                                 plan::EnumNamesStateRole()),
                     dtype, toBuf(*state.getBuffer()));
  }
  return success();
}

static LogicalResult fillBuckets(plan::PlanT &plan, ModuleOp module,
                                 const Places &places) {
  // The first reduction has the packed gradients as its input.
  llvm::DenseMap<StringAttr, Type> reduceTypes;
  module.walk([&](CollectiveOpInterface reduce) {
    if (!reduce.isReduction())
      return;
    reduceTypes.try_emplace(
        reduce.getSourceAttr().getAttr(),
        cast<RankedTensorType>(reduce.getInput().getType()).getElementType());
  });
  for (auto bucket : module.getOps<BucketOp>()) {
    plan::BucketT &out = append(plan.buckets);
    out.name = bucket.getSymName().str();
    out.unit = bucket.getUnit().str();
    out.trainable = bucket.getTrainable();
    out.elements = bucket.getElements();
    out.sharding = findByName<plan::Sharding>(
        stringifySharding(bucket.getSharding()), plan::EnumNamesSharding());
    out.shardElements = getStateType(bucket, StateRole::shard, getMesh(module))
                            .getNumElements();
    if (std::optional<int64_t> side = bucket.getMaxSide())
      out.maxSide = *side;
    Type reduce = reduceTypes.lookup(bucket.getSymNameAttr());
    if (failed(setDType(out.storage, bucket.getStorage(), bucket)) ||
        failed(setDType(out.wire, bucket.getWire(), bucket)) ||
        (reduce && failed(setDType(out.reduce.emplace(), reduce, bucket))) ||
        failed(fillStates(out.states, bucket, places)))
      return failure();
  }
  return success();
}

size_t fcdp::getArchiveOf(const plan::BufferT &buffer) {
  if (buffer.evaluation)
    return 1;
  return buffer.variant > 0 ? 1 + buffer.variant : 0;
}

/// Reads the value of a buffer that is not persistent.
static LogicalResult readConstant(std::string &constants, plan::BufferT &out,
                                  BufferOp buffer, TensorReader readTensor) {
  llvm::Expected<std::vector<char>> value =
      readTensor(buffer.getName(), getArchiveOf(out));
  if (!value)
    return buffer.emitOpError("cannot read its value: ")
           << llvm::toString(value.takeError());
  auto expected =
      static_cast<size_t>(byteSize(cast<RankedTensorType>(buffer.getType())));
  if (value->empty() && expected != 0) {
    buffer.emitWarning("the archive has no weights: '")
        << buffer.getName()
        << "' has no value, and the step cannot be run; build the model under "
           "fcdp.empty_weights(), which keeps the values of buffers";
    return success();
  }
  if (value->size() != expected)
    return buffer.emitOpError("expected a value of ")
           << expected << " bytes, got " << value->size();
  out.constantOffset = appendConstant(constants, *value);
  return success();
}

static LogicalResult fillBuffers(plan::PlanT &plan, std::string &constants,
                                 ModuleOp module, TensorReader readTensor) {
  for (auto buffer : module.getOps<BufferOp>()) {
    plan::BufferT &out = append(plan.buffers);
    out.name = buffer.getName().str();
    out.persistent = buffer.getPersistent();
    out.mutable_ = buffer.getMutableBuffer();
    out.evaluation = buffer.getEvaluation();
    out.variant = buffer.getVariant().value_or(0);
    if (failed(setType(out, cast<RankedTensorType>(buffer.getType()), buffer)))
      return failure();
    if (!out.persistent &&
        failed(readConstant(constants, out, buffer, readTensor)))
      return failure();
  }
  return success();
}

static LogicalResult fillInputs(plan::PlanT &plan, ModuleOp module) {
  for (auto input : module.getOps<InputOp>()) {
    if (!input.getEvaluation() && !plan.inputs.empty() &&
        plan.inputs.back()->evaluation)
      return input.emitOpError("expected the step's inputs in front of the "
                               "evaluation's");
    uint32_t variant = input.getVariant().value_or(0);
    if (!input.getEvaluation() && !plan.inputs.empty() &&
        plan.inputs.back()->variant > variant)
      return input.emitOpError("expected the inputs of a variant in front of "
                               "those of the next");
    plan::InputT &out = append(plan.inputs);
    out.name = input.getName().str();
    out.evaluation = input.getEvaluation();
    out.variant = variant;
    if (std::optional<uint64_t> limit = input.getLimit())
      out.indexLimit = *limit;
    if (std::optional<uint64_t> ignored = input.getIgnore())
      out.ignoreIndex = *ignored;
    if (failed(setType(out, cast<RankedTensorType>(input.getType()), input)))
      return failure();
  }
  return success();
}

LogicalResult fcdp::fillSymbols(plan::PlanT &plan, std::string &constants,
                                ModuleOp module, const Places &places,
                                TensorReader readTensor) {
  return success(succeeded(fillOptimizer(plan.optimizer, module)) &&
                 succeeded(fillParameters(plan, module)) &&
                 succeeded(fillBuckets(plan, module, places)) &&
                 succeeded(fillBuffers(plan, constants, module, readTensor)) &&
                 succeeded(fillInputs(plan, module)));
}
