// SPDX-License-Identifier: Apache-2.0
//
// Checks a plan, except for its operations and functions.
#include "plan/PlanCheck.h"
#include "core/PackedLayout.h"
#include "plan/StatePlaces.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <tuple>

namespace fcdp {

namespace {

using Where = std::string;
using plan::StateRole;

void checkHead(const StepPlan &plan) {
  constexpr uint64_t mostRanks = 1 << 16;
  auto checkCount = [&](const Where &where, uint64_t count) {
    if (count < 1 || count > mostRanks)
      failCheck(where, "expected 1 to ", mostRanks, ", got ", count);
  };
  checkCount("nodes", plan.nodes);
  checkCount("ranks_per_node", plan.ranksPerNode);
  checkCount("nodes", uint64_t(plan.nodes) * plan.ranksPerNode);
  if (plan.microBatches < 1)
    failCheck("micro_batches", "expected at least 1, got 0");
  constexpr uint32_t mostEvents = 1 << 30;
  if (plan.numEvents > mostEvents)
    failCheck("num_events", "expected at most ", mostEvents, ", got ",
              plan.numEvents);
}

void checkShape(const Where &where, const Shape &shape) {
  constexpr int64_t most = int64_t(1) << 56;
  int64_t elements = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements) ||
        elements > most)
      failCheck(where + ".shape",
                "expected a shape of fewer than 2^56 elements, got ",
                toString(shape));
}

/// The type of a state, and the number of its elements if it is known.
struct StateRule {
  plan::DType dtype;
  uint64_t elements;
};

plan::DType dtypeOf(StateType type, const plan::BucketT &bucket) {
  switch (type) {
  case StateType::storage:
    return bucket.storage;
  case StateType::wire:
    return bucket.wire;
  case StateType::optimizer:
    return findState(bucket, StateRole::master) ? plan::DType::f32
                                                : bucket.storage;
  case StateType::f32:
    return plan::DType::f32;
  case StateType::u8:
    return plan::DType::u8;
  }
  throw std::logic_error("unknown type of a state");
}

uint64_t countElements(StateScope scope, const StepPlan &plan,
                       const plan::BucketT &bucket) {
  switch (scope) {
  case StateScope::shard:
    return bucket.shardElements;
  case StateScope::slice:
    return bucket.elements / plan.mesh.locals;
  case StateScope::whole:
    return bucket.elements;
  }
  throw std::logic_error("unknown scope of a state");
}

/// Returns none for a copy, which may be whole or a slice, in the type of the
/// wire.
std::optional<StateRule> ruleOf(StateRole role, const StepPlan &plan,
                                const plan::BucketT &bucket) {
  const StateRules rules = rulesOf(role);
  if (rules.type == StateType::wire)
    return std::nullopt;
  StateRule rule{dtypeOf(rules.type, bucket),
                 countElements(rules.scope, plan, bucket)};
  if (isScale(role))
    rule.elements /= kStateBlock;
  if (isFactor(role))
    rule.elements = uint64_t(numFactorElements(plan, bucket, role));
  return rule;
}

void checkState(const StepPlan &plan, const plan::BucketT &bucket,
                const plan::State &state, const Where &where) {
  std::optional<StateRule> rule = ruleOf(state.role(), plan, bucket);
  if (!rule)
    return checkBuf(plan, where, state.buf(), byteSize(toDType(state.dtype())));
  if (state.dtype() != rule->dtype)
    failCheck(where + ".dtype", "expected ", name(toDType(rule->dtype)),
              ", got ", name(toDType(state.dtype())));
  checkFlat(plan, where, state.buf(), rule->elements, rule->dtype);
}

void checkBucket(const StepPlan &plan, const plan::BucketT &bucket,
                 const Where &where) {
  uint64_t parts = countParts(bucket.sharding, plan.mesh);
  if (bucket.elements != bucket.shardElements * parts)
    failCheck(where + ".elements", "expected ", parts, " shards of ",
              bucket.shardElements, " elements, got ", bucket.elements);
  if (bucket.elements % plan.mesh.size() != 0)
    failCheck(where + ".elements", "expected a multiple of ", plan.mesh.size(),
              " ranks, got ", bucket.elements);
  constexpr uint32_t mostSide = 1'000'000;
  if (bucket.maxSide.value_or(0) > mostSide)
    failCheck(where + ".max_side", "expected at most ", mostSide, ", got ",
              *bucket.maxSide);
  if (!findState(bucket, StateRole::shard))
    failCheck(where + ".states", "the state 'shard' is missing");
  if (findState(bucket, StateRole::master) &&
      (!bucket.trainable || byteSize(toDType(bucket.storage)) >= 4))
    failCheck(where + ".states.master",
              "expected a trainable bucket with a narrower storage type");
  for (const plan::State &state : bucket.states) {
    Where path = where + ".states." + plan::EnumNameStateRole(state.role());
    if (findState(bucket, state.role()) != &state)
      failCheck(path, "it is there twice");
    bool isOfOptimizer = state.role() == StateRole::master ||
                         plan::isOptimizerState(state.role());
    if (state.buf().arena() == plan::Arena::file && !isOfOptimizer)
      failCheck(path, "expected it in memory, got a place in a file");
    if (!isFactor(state.role()))
      checkState(plan, bucket, state, path);
  }
}

/// Checks the states whose size depends on the shapes of the parameters.
void checkFactors(const StepPlan &plan) {
  for (size_t i = 0; i < plan.buckets.size(); ++i)
    for (const plan::State &state : plan.buckets[i]->states)
      if (isFactor(state.role()))
        checkState(plan, *plan.buckets[i], state,
                   at("buckets", i) + ".states." +
                       plan::EnumNameStateRole(state.role()));
}

void checkGroups(const StepPlan &plan) {
  for (size_t i = 0; i < plan.groups.size(); ++i)
    for (auto [name, number] :
         {std::pair(".lr_factor", plan.groups[i]->lrFactor),
          std::pair(".weight_decay", plan.groups[i]->weightDecay)})
      if (!std::isfinite(number) || number < 0)
        failCheck(at("groups", i) + name,
                  "expected a finite number of at least 0, got ", number);
}

void checkGroup(const StepPlan &plan, const plan::ParameterT &parameter,
                const Where &where) {
  if (parameter.group) {
    checkIndex({where, ".group"}, *parameter.group, plan.groups.size(),
               "groups");
    if (!parameter.trainable)
      failCheck(where + ".group", "'", parameter.names[0], "' is frozen");
  }
  if (plan.groups.empty() || !parameter.trainable)
    return;
  constexpr uint64_t alignment = 64;
  uint64_t offset = parameter.offsetElements *
                    byteSize(toDType(plan.buckets[parameter.bucket]->storage));
  if (offset % alignment != 0)
    failCheck(where + ".offset_elements", "expected a multiple of ", alignment,
              " bytes, as the plan has groups, got ", offset);
}

void checkPacked(const plan::ParameterT &parameter, const Where &where) {
  const plan::PackedT *packed = parameter.packed.get();
  if (!packed)
    return;
  const Where path = where + ".packed";
  checkShape(path, packed->shape);
  if (packed->shape.size() != 2)
    failCheck(path + ".shape", "expected two dimensions, got ",
              toString(packed->shape));
  const DType dtype = toDType(packed->dtype);
  if (dtype != DType::F32 && dtype != DType::BF16 && dtype != DType::F16)
    failCheck(path + ".dtype", "expected f32, bf16 or f16, got ", name(dtype));
  const PackedLayout layout =
      packed->packing == plan::Packing::nf4
          ? PackedLayout::ofNf4(numElements(packed->shape))
          : PackedLayout::ofInt8(packed->shape[0], packed->shape[1]);
  if (parameter.trainable || parameter.dtype != plan::DType::u8 ||
      parameter.shape != Shape{layout.countBytes()})
    failCheck(path, "expected ", layout.countBytes(),
              " bytes of a frozen parameter for ", toString(packed->shape),
              ", got ", name(toDType(parameter.dtype)),
              toString(parameter.shape));
}

void checkParameters(const StepPlan &plan) {
  std::set<std::string> names;
  // By bucket, [begin, end) of each member.
  std::vector<std::vector<std::pair<uint64_t, uint64_t>>> members(
      plan.buckets.size());
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::ParameterT &parameter = *plan.parameters[i];
    Where where = at("parameters", i);
    checkIndex({where, ".bucket"}, parameter.bucket, plan.buckets.size(),
               "buckets");
    const plan::BucketT &bucket = *plan.buckets[parameter.bucket];
    if (parameter.names.empty())
      failCheck(where + ".names", "expected a name, got none");
    for (const std::string &name : parameter.names)
      if (!names.insert(name).second)
        failCheck(where + ".names", "the name '", name, "' is there twice");
    checkShape(where, parameter.shape);
    checkGroup(plan, parameter, where);
    checkPacked(parameter, where);
    uint64_t begin = parameter.offsetElements;
    uint64_t end = begin + numElements(parameter.shape);
    if (end > bucket.elements)
      failCheck(where, "'", parameter.names[0], "' ends at element ", end,
                " of bucket '", bucket.name, "', which has ", bucket.elements);
    if (parameter.dtype != bucket.storage)
      failCheck(where + ".dtype", "expected the storage type ",
                name(toDType(bucket.storage)), " of bucket '", bucket.name,
                "', got ", name(toDType(parameter.dtype)));
    if (begin != end)
      members[parameter.bucket].emplace_back(begin, end);
  }
  for (size_t b = 0; b < members.size(); ++b) {
    std::sort(members[b].begin(), members[b].end());
    for (size_t i = 1; i < members[b].size(); ++i)
      if (members[b][i - 1].second > members[b][i].first)
        failCheck(at("buckets", b), "two parameters overlap at element ",
                  members[b][i].first);
  }
}

void checkBuffer(const plan::BufferT &buffer, const Where &where,
                 uint64_t constantsBytes) {
  checkShape(where, buffer.shape);
  if (!buffer.persistent && !buffer.constantOffset &&
      numElements(buffer.shape) != 0)
    failCheck(where + ".constant_offset", "'", buffer.name,
              "' has no value: the step was exported from a model without "
              "weights; build the model under fcdp.empty_weights(), which "
              "keeps the values of buffers, or give it weights");
  if (!buffer.constantOffset)
    return;
  uint64_t end = *buffer.constantOffset +
                 numElements(buffer.shape) * byteSize(toDType(buffer.dtype));
  if (end > constantsBytes)
    failCheck(where + ".constant_offset", "the value of '", buffer.name,
              "' ends at byte ", end, " of ", constantsBytes,
              " bytes of constants");
}

void checkInputs(const StepPlan &plan) {
  std::set<std::tuple<bool, uint32_t, std::string>> names;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const plan::InputT &input = *plan.inputs[i];
    Where where = at("inputs", i);
    checkShape(where, input.shape);
    if (i > 0 && plan.inputs[i - 1]->evaluation && !input.evaluation)
      failCheck(where + ".evaluation",
                "expected the step's inputs in front of the evaluation's");
    if (input.evaluation && input.variant != 0)
      failCheck(where + ".variant",
                "expected 0 for an input of the "
                "evaluation, got ",
                input.variant);
    if (!names.insert({input.evaluation, input.variant, input.name}).second)
      failCheck(where + ".name", "the name '", input.name, "' is there twice");
    bool isInteger =
        (input.dtype >= plan::DType::i8 && input.dtype <= plan::DType::i64) ||
        input.dtype == plan::DType::u8;
    if (!isInteger && input.indexLimit)
      failCheck(where + ".index_limit", "expected null for an input of type ",
                name(toDType(input.dtype)));
    if (input.indexLimit && *input.indexLimit < 1)
      failCheck(where + ".index_limit", "expected at least 1, got ",
                *input.indexLimit);
  }
}

/// Checks that all variants have the same inputs, and that these do not become
/// smaller, because the inputs of the greatest variant have the memory of all.
void checkVariants(const StepPlan &plan) {
  const uint64_t count = plan.numStepInputs(), variants = plan.numVariants();
  const size_t ofStep =
      std::count_if(plan.inputs.begin(), plan.inputs.end(),
                    [](const auto &input) { return !input->evaluation; });
  if (ofStep != count * variants)
    failCheck("inputs", "expected ", count, " for each of ", variants,
              " variants, got ", ofStep);
  for (size_t i = count; i < ofStep; ++i) {
    const plan::InputT &input = *plan.inputs[i],
                       &before = *plan.inputs[i - count];
    bool fits = input.variant == i / count && input.name == before.name &&
                input.dtype == before.dtype &&
                input.shape.size() == before.shape.size();
    for (size_t d = 0; fits && d < input.shape.size(); ++d)
      fits = input.shape[d] >= before.shape[d];
    if (!fits)
      failCheck(at("inputs", i), "expected input '", before.name,
                "' of variant ", i / count,
                ", at least as large as that of the variant before");
  }
}

void checkSlot(const StepPlan &plan, const plan::SlotT &slot,
               const Where &where) {
  auto needs = [&](bool holds, const char *field) {
    if (!holds)
      failCheck(where, "'", field, "' is missing; a slot of kind '",
                EnumNameSlotKind(slot.kind), "' needs it");
  };
  switch (slot.kind) {
  case plan::SlotKind::transient:
    return;
  case plan::SlotKind::input:
    needs(slot.index.has_value(), "index");
    return checkIndex(where, *slot.index, plan.inputs.size(), "inputs");
  case plan::SlotKind::buffer:
    needs(slot.index.has_value(), "index");
    return checkIndex(where, *slot.index, plan.buffers.size(), "buffers");
  case plan::SlotKind::planned:
    needs(slot.buf != nullptr, "buf");
    needs(slot.dtype.has_value(), "dtype");
    checkShape(where, slot.shape);
    checkFlat(plan, {where, ".buf"}, *slot.buf, numElements(slot.shape),
              *slot.dtype);
    return;
  case plan::SlotKind::loss_scale:
    if (!plan.scalesLoss())
      failCheck(where, "expected an operation 'unscale_gradients' in a plan "
                       "with a slot of kind 'loss_scale'");
    return;
  case plan::SlotKind::loss_weight:
    if (!plan.weightsLoss())
      failCheck(where, "expected the field 'loss_weight' in a plan with a slot "
                       "of kind 'loss_weight'");
  }
}

bool hasSlot(const StepPlan &plan, plan::SlotKind kind) {
  return std::any_of(plan.slots.begin(), plan.slots.end(),
                     [&](const auto &slot) { return slot->kind == kind; });
}

/// Checks that gradients which are divided by the loss scale were multiplied by
/// it.
void checkLossScale(const StepPlan &plan) {
  if (plan.scalesLoss() && !hasSlot(plan, plan::SlotKind::loss_scale))
    failCheck("slots", "expected a slot of kind 'loss_scale' in a plan with an "
                       "operation 'unscale_gradients'");
}

/// Checks that weighted losses have an input that weights them.
void checkLossWeight(const StepPlan &plan) {
  if (!plan.weightsLoss())
    return;
  auto checkInput = [&](StepPlan::Inputs inputs, const char *what) {
    size_t position = plan.weightIn(inputs);
    if (position == inputs.size())
      failCheck("loss_weight", "expected an input of the ", what, ", got '",
                plan.lossWeight, "'");
    plan::DType type = inputs[position]->dtype;
    if (type == plan::DType::c64 || type == plan::DType::c128)
      failCheck("loss_weight",
                "expected an input of numbers that are not "
                "complex, got '",
                plan.lossWeight, "'");
  };
  if (plan.evaluates())
    checkInput(plan.evaluationInputs(), "evaluation");
  if (!plan.trains())
    return;
  checkInput(plan.stepInputs(0), "step");
  if (!hasSlot(plan, plan::SlotKind::loss_weight))
    failCheck("slots", "expected a slot of kind 'loss_weight' in a plan with "
                       "the field 'loss_weight'");
}

} // namespace

void checkIndex(const FieldPath &where, uint64_t index, size_t count,
                const char *entries) {
  if (index >= count)
    failCheck(where, "index ", index, " is out of range: there are ", count,
              " ", entries);
}

/// Checks what only places in files must be.
void checkFilePlace(const FieldPath &where, const plan::Buf &buf) {
  if (buf.nodeStride() != 0 || buf.localStride() != 0)
    failCheck(where, "expected strides of 0 in a file");
  if (buf.offset() % kFileBlock != 0)
    failCheck(where, "expected an offset in a file that is a multiple of ",
              kFileBlock, ", got ", buf.offset());
}

void checkBuf(const StepPlan &plan, const FieldPath &where,
              const plan::Buf &buf, size_t align) {
  if (buf.arena() == plan::Arena::file)
    checkFilePlace(where, buf);
  using Wide = unsigned __int128;
  uint64_t size = plan.arenaBytes(buf.arena());
  Wide end = Wide(buf.offset()) + Wide(plan.mesh.nodes - 1) * buf.nodeStride() +
             Wide(plan.mesh.locals - 1) * buf.localStride() + buf.bytes();
  if (end > size)
    failCheck(where, "expected a region inside the ",
              plan::EnumNameArena(buf.arena()), " arena of ", size,
              " bytes, got one that ends at byte ",
              end >> 64 ? "2^64 or more" : std::to_string(uint64_t(end)));
  if (buf.offset() % align != 0 || buf.nodeStride() % align != 0 ||
      buf.localStride() % align != 0)
    failCheck(where, "expected offset and strides that are multiples of ",
              align, " bytes");
}

void checkFlat(const StepPlan &plan, const FieldPath &where,
               const plan::Buf &buf, uint64_t elements, plan::DType dtype) {
  DType type = toDType(dtype);
  if (uint64_t bytes = elements * byteSize(type); buf.bytes() != bytes)
    failCheck(std::string(where.table).append(where.field) + ".bytes",
              "expected ", bytes, " (", elements, " elements of ", name(type),
              "), got ", buf.bytes());
  checkBuf(plan, where, buf, byteSize(type));
}

/// Checks the host memory through which copies to files and from files pass.
static void checkFileWindow(const StepPlan &plan) {
  if (!plan.fileWindow)
    return;
  const plan::Buf &window = *plan.fileWindow;
  if (plan.target == plan::Target::cpu)
    failCheck("file_window", "expected none for the target 'cpu'");
  checkBuf(plan, "file_window", window, kFileBlock);
  if (window.arena() != plan::Arena::host || window.bytes() == 0 ||
      window.bytes() % (kFileWindowParts * kFileBlock) != 0)
    failCheck("file_window", "expected host memory for ", kFileWindowParts,
              " parts of whole blocks of ", kFileBlock, " bytes, got ",
              window.bytes(), " bytes of the ",
              plan::EnumNameArena(window.arena()), " arena");
}

static void checkKernel(const StepPlan &plan, size_t index) {
  const plan::KernelT &kernel = *plan.kernels[index];
  const Where where = at("kernels", index);
  auto isPart = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (kernel.name.empty() ||
      !std::all_of(kernel.name.begin(), kernel.name.end(), isPart))
    failCheck(where + ".name", "expected letters, digits and '_', got '",
              kernel.name, "'");
  for (size_t i = 0; i < index; ++i)
    if (plan.kernels[i]->name == kernel.name)
      failCheck(where + ".name", "'", kernel.name, "' is there twice");
  auto isFloat = [](plan::DType type) {
    return type == plan::DType::f32 || type == plan::DType::bf16;
  };
  if (!std::all_of(kernel.operands.begin(), kernel.operands.end(), isFloat) ||
      !std::all_of(kernel.results.begin(), kernel.results.end(), isFloat) ||
      kernel.results.empty())
    failCheck(where, "expected operands and results of f32 or bf16");
  if (kernel.maps.size() != kernel.operands.size() ||
      std::count(kernel.maps.begin(), kernel.maps.end(),
                 plan::KernelMap::identity) == 0)
    failCheck(where + ".maps", "expected one for each of ",
              kernel.operands.size(), " operands, and one 'identity'");
}

static void checkKernels(const StepPlan &plan) {
  if (!plan.kernels.empty() && plan.target != plan::Target::cpu)
    failCheck("kernels", "expected none for the target '",
              plan::EnumNameTarget(plan.target), "'");
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    checkKernel(plan, i);
}

void checkPlan(const StepPlan &plan, std::span<const std::byte> constants) {
  checkHead(plan);
  checkKernels(plan);
  for (size_t i = 0; i < plan.buckets.size(); ++i)
    checkBucket(plan, *plan.buckets[i], at("buckets", i));
  checkGroups(plan);
  checkParameters(plan);
  checkFactors(plan);
  for (size_t i = 0; i < plan.buffers.size(); ++i)
    checkBuffer(*plan.buffers[i], at("buffers", i), constants.size());
  if (std::string found = hashBytes(constants); plan.constantsHash != found)
    failCheck("constants_hash", "expected ", found, ", got ",
              plan.constantsHash,
              ": the object is damaged or was edited; compile it again");
  checkFileWindow(plan);
  checkInputs(plan);
  checkVariants(plan);
  for (size_t i = 0; i < plan.slots.size(); ++i)
    checkSlot(plan, *plan.slots[i], at("slots", i));
  checkLossScale(plan);
  checkFunctions(plan);
  checkLossWeight(plan);
}

} // namespace fcdp
