// SPDX-License-Identifier: Apache-2.0
//
// The plan of a compiled step (plan/Plan.fbs), after its checks, with data that
// the runtime derives from it. All of it is plain data, and safe to read from
// several threads.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"
#include "fcdp/runtime.h"
#include "plan/PlanUnions.h"
#include "plan/Plan_generated.h"
#include "plan/Reservations.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// Convert the schema's enumerators to the backend's.
inline DType toDType(plan::DType type) { return static_cast<DType>(type); }
inline StreamId toStream(plan::Stream stream) {
  return static_cast<StreamId>(stream);
}
inline AxisId toAxis(plan::Axis axis) { return static_cast<AxisId>(axis); }

using Shape = std::vector<int64_t>;
/// Returns the product of the extents.
int64_t numElements(const Shape &shape);
/// Returns, for example, "[2, 3]".
std::string toString(const Shape &shape);

/// Returns the offset of a region on one rank.
inline uint64_t offsetOn(const plan::Buf &buf, Place place) {
  return buf.offset() + place.node * buf.nodeStride() +
         place.local * buf.localStride();
}

/// Returns whether a function of that role computes a batch of an evaluation.
inline bool isEvaluation(plan::Role role) {
  return role == plan::Role::first_evaluation ||
         role == plan::Role::next_evaluation;
}

/// Returns whether a function of that role synchronizes a fragment with other
/// nodes, alone or within a micro-batch.
inline bool isOuter(plan::Role role) {
  return role == plan::Role::outer_update ||
         role == plan::Role::only_outer_microbatch ||
         role == plan::Role::last_outer_microbatch;
}

/// Returns whether a function of that role computes a micro-batch of a step.
inline bool isMicrobatch(plan::Role role) {
  return role == plan::Role::only_microbatch ||
         role == plan::Role::first_microbatch ||
         role == plan::Role::next_microbatch ||
         role == plan::Role::last_microbatch ||
         role == plan::Role::only_outer_microbatch ||
         role == plan::Role::last_outer_microbatch;
}

/// Returns whether functions of that role have numbers, if there are several.
inline bool isNumbered(plan::Role role) {
  return isMicrobatch(role) || isOuter(role);
}

/// Returns whether nothing is in flight at the beginning and the end of a
/// function of that role, which runs between others.
inline bool isSynchronized(plan::Role role) {
  return isEvaluation(role) || role == plan::Role::outer_update;
}

/// A function of the plan: its role, and its number among the functions of that
/// role. A micro-batch has the number of its variant of the step, a function
/// that synchronizes nodes that of its fragment, and all others have 0.
struct StepFunction {
  plan::Role role;
  uint32_t number = 0;
};

inline StepFunction toStepFunction(const plan::FunctionT &function) {
  return {function.role, function.variant};
}

/// The functions that a step runs beside its update.
struct StepRun {
  /// The function of each micro-batch, in order.
  std::vector<StepFunction> microBatches;
  /// The functions after the update, each of which runs alone.
  std::vector<StepFunction> behind;
  /// The number of the step's variant. The proofs allow work in flight
  /// between two steps if both have one number.
  uint32_t number = 0;
  /// The number of the kind of step, below StepPlan::numKinds. Steps of one
  /// kind run the same functions until the update.
  size_t kind = 0;
};

/// Returns the state of a bucket, or null.
const plan::State *findState(const plan::BucketT &bucket, plan::StateRole role);
/// Returns the number of different parts of a bucket.
uint32_t countParts(plan::Sharding sharding, const Mesh &mesh);
/// Returns the number of the part that `place` owns.
uint32_t partOf(plan::Sharding sharding, const Mesh &mesh, Place place);

double learningRate(const plan::OptimizerUnion &optimizer);
/// Returns the weight decay of parameters without a group.
double weightDecay(const plan::OptimizerUnion &optimizer);
/// Returns what the schema says about the optimizer.
plan::OptimizerFacts factsOf(const plan::OptimizerUnion &optimizer);

/// Returns whether nodes train the bucket by themselves, and only some steps
/// synchronize them.
inline bool isTrainedByNodes(const plan::BucketT &bucket) {
  return findState(bucket, plan::StateRole::outer) != nullptr;
}
/// Returns whether nodes that train a bucket by themselves have that state of
/// it in common.
inline bool isCommonToNodes(plan::StateRole role) {
  return role == plan::StateRole::outer ||
         role == plan::StateRole::outer_momentum;
}

/// Returns the stream that an operation works on, or on which a wait waits.
StreamId streamOf(const plan::OpT &op);
/// Returns the kind of an operation, by which profiles list it. A collective
/// that does not send its values as they are has the form in its kind:
/// "all_gather_delta".
std::string operationKind(const plan::OpT &op);

struct StepPlan : plan::PlanT {
  /// SHA-1 of the plan's bytes, in hex digits. Ranks compare it.
  std::string hash;
  Mesh mesh;
  /// The reservations by function.
  std::vector<Reservations> reservations;
  /// The descriptions of operations in messages: "aten::mm (module
  /// 'blocks.0.fc', model.py:12)".
  std::vector<std::string> descriptions;
  /// The functions of `kernels` for this processor. The object's owner sets
  /// them, and they live as long as the object.
  std::vector<FcdpKernel> kernelFunctions;

  /// Returns the index of the kernel that a call calls, none if it calls an
  /// operator. A checked plan has the kernel.
  std::optional<size_t> kernelOf(const plan::AtenCallT &call) const;
  /// Returns the size of an arena: of the host arena per node, of others per
  /// rank.
  uint64_t arenaBytes(plan::Arena arena) const {
    switch (arena) {
    case plan::Arena::device:
      return deviceBytes;
    case plan::Arena::host:
      return hostBytes;
    case plan::Arena::file:
      return fileBytes;
    }
    return 0;
  }
  /// Returns the learning rate that the step was compiled with.
  double learningRate() const;
  /// Returns the optimizer of an update.
  const plan::OptimizerUnion &optimizerOf(const plan::ShardUpdateT &op) const;
  /// Returns the update that an operation does on the device or on the host, or
  /// null.
  static const plan::ShardUpdateT *updateOf(const plan::OpT &op);
  /// Returns the index of the function. A checked step has all functions that
  /// its number of micro-batches needs, and each micro-batch for each variant.
  size_t indexOf(plan::Role role, uint32_t variant = 0) const;
  /// Returns the number of variants of a step of several shapes, or 1 if it has
  /// one shape.
  uint32_t numVariants() const;
  /// Returns whether steps run the model. Otherwise the plan only has
  /// evaluations.
  bool trains() const;
  /// Returns whether there are functions that evaluate the model.
  bool evaluates() const;
  /// Returns the number of inputs of the step in one variant. The inputs of
  /// variant v begin at v numStepInputs(). The inputs of the evaluation follow
  /// those of all variants.
  size_t numStepInputs() const;
  using Inputs = std::span<const std::unique_ptr<plan::InputT>>;
  /// Returns the inputs of a variant. The inputs of the greatest variant have
  /// the memory of all.
  Inputs stepInputs(uint32_t variant) const;
  Inputs greatestInputs() const { return stepInputs(numVariants() - 1); }
  /// Returns the inputs of each variant, the least first.
  std::vector<Inputs> inputsOfShapes() const;
  /// Returns whether a step has several variants, whose inputs have other
  /// shapes.
  bool hasSeveralShapes() const { return numVariants() > 1; }
  Inputs evaluationInputs() const;
  /// Returns the index of the first of `part`, which are some of the inputs.
  size_t firstOf(Inputs part) const {
    return size_t(part.data() - inputs.data());
  }
  /// Returns the buffers that are states of the job. Constants of evaluations
  /// and of variants are not, and may have the names of other buffers.
  std::vector<size_t> stateBuffers() const;
  /// Returns the fragments whose outer updates follow step `step`, counted from
  /// 1. If outer updates overlap with steps, returns the fragment that is
  /// updated in the step's last micro-batch, if any.
  std::vector<uint32_t> outerFragments(int64_t step) const;
  /// Returns the functions of a step of a variant, with the outer updates of
  /// `fragments`.
  StepRun stepRun(uint32_t variant, std::span<const uint32_t> fragments) const;
  /// Returns the functions of step `step` of the job, counted from 1.
  StepRun stepRun(uint32_t variant, int64_t step) const {
    return stepRun(variant, outerFragments(step));
  }
  /// Returns the role of the functions that synchronize nodes.
  plan::Role outerRole() const;
  /// Returns the functions that steps run, which a checked plan has.
  std::vector<StepFunction> functionsOfSteps() const;
  /// Returns, for example, "'update'" or "'only_microbatch' of variant 1".
  std::string describe(StepFunction function) const;
  /// Returns the number of kinds of steps: one for each variant, and one for
  /// each fragment whose outer update is in a micro-batch.
  size_t numKinds() const;
  /// Returns the kind of the steps that run a function. Pre: it is not shared.
  size_t kindOf(StepFunction function) const;
  /// Returns whether steps of several kinds run the function.
  bool isShared(StepFunction function) const;
  /// Returns, for example, "first_microbatch", or "first_microbatch.1" for one
  /// of several variants.
  std::string nameOf(StepFunction function) const;
  /// Returns the index of the input that has the memory of input `index`: the
  /// same input, or that of the greatest variant.
  size_t memoryOfInput(size_t index) const;
  /// Returns whether steps reduce gradients within a node only.
  bool reducesWithinNodes() const { return outer != nullptr; }
  /// Returns whether outer updates run within micro-batches.
  bool overlapsOuter() const { return outer && outer->overlap; }
  /// Returns the number of ranks on an axis.
  uint32_t ranks(AxisId axis) const;
  /// Returns the bytes in f32 of the gradients that a rank owns.
  uint64_t gradientBytes() const;
  /// Returns whether losses are scaled.
  bool scalesLoss() const { return uses(plan::OpBody::unscale_gradients); }
  /// Returns whether losses are weighted by an input, `lossWeight`.
  bool weightsLoss() const { return !lossWeight.empty(); }
  /// Returns whether steps need something that ranks have to agree on: a
  /// variant, or the sum of weights.
  bool hasNeeds() const { return hasSeveralShapes() || weightsLoss(); }
  /// Returns the position of that input in `inputs`, the inputs of a variant or
  /// of the evaluation. Pre: losses are weighted, and the plan is checked.
  size_t weightIn(Inputs inputs) const;
  /// Returns whether the ranks sum a number during the update.
  bool sumsOverRanks() const {
    return uses(plan::OpBody::clip_gradients) || scalesLoss();
  }
  /// The bytes of its node's host arena that a rank uses; empty if it uses
  /// none.
  struct HostPart {
    uint64_t begin = 0, end = 0;
  };
  HostPart hostPart(Place place) const;
  /// Returns whether there is an operation of `kind`.
  bool uses(plan::OpBody kind) const;
  /// Returns whether collectives send coded messages.
  bool codesMessages() const;
  /// Returns whether there is an operation of `kind`, a gather or reduction,
  /// over `axis`.
  bool uses(plan::OpBody kind, AxisId axis) const;
  /// Returns the different numbers of bytes that such operations send from one
  /// rank to another, without coding.
  std::set<uint64_t> messageBytes(plan::OpBody kind, AxisId axis) const;
};

/// Returns the SHA-1 as 40 lower-case hex digits.
std::string hashBytes(std::span<const std::byte> bytes);

} // namespace fcdp
