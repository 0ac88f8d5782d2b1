// SPDX-License-Identifier: Apache-2.0
//
// The plan of a compiled step (plan/Plan.fbs), checked, with what the runtime
// derives from it. Everything here is plain data: safe to read from several
// threads.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"
#include "plan/Plan_generated.h"
#include "plan/Reservations.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// The schema's enumerators in the backend's terms.
inline DType toDType(plan::DType type) { return static_cast<DType>(type); }
inline StreamId toStream(plan::Stream stream) {
  return static_cast<StreamId>(stream);
}
inline Axis toAxis(plan::Axis axis) { return static_cast<Axis>(axis); }

using Shape = std::vector<int64_t>;
/// The product of the extents.
int64_t numElements(const Shape &shape);
/// "[2, 3]"
std::string toString(const Shape &shape);

/// The offset of a region on one rank.
inline uint64_t offsetOn(const plan::Buf &buf, Place place) {
  return buf.offset() + place.node * buf.nodeStride() +
         place.local * buf.localStride();
}

/// Whether a function of that role computes a batch of an evaluation.
inline bool isEvaluation(plan::Role role) {
  return role == plan::Role::first_evaluation ||
         role == plan::Role::next_evaluation;
}

/// Whether a function of that role synchronizes a fragment with other nodes,
/// alone or within a micro-batch.
inline bool isOuter(plan::Role role) {
  return role == plan::Role::outer_update ||
         role == plan::Role::only_outer_microbatch ||
         role == plan::Role::last_outer_microbatch;
}

/// Whether a function of that role computes a micro-batch of a step.
inline bool isMicrobatch(plan::Role role) {
  return role == plan::Role::only_microbatch ||
         role == plan::Role::first_microbatch ||
         role == plan::Role::next_microbatch ||
         role == plan::Role::last_microbatch ||
         role == plan::Role::only_outer_microbatch ||
         role == plan::Role::last_outer_microbatch;
}

/// The state of a bucket, or null.
const plan::State *findState(const plan::BucketT &bucket, plan::StateRole role);
/// How many different parts of a bucket there are.
uint32_t countParts(plan::Sharding sharding, const Mesh &mesh);
/// The number of the part that `place` owns.
uint32_t partOf(plan::Sharding sharding, const Mesh &mesh, Place place);

/// Calls `visit` with the table of an operation.
template <typename Visit>
decltype(auto) visitBody(const plan::OpT &op, Visit &&visit) {
  switch (op.body.type) {
  case plan::OpBody::aten_call:
    return visit(*op.body.Asaten_call());
  case plan::OpBody::write_buffer:
    return visit(*op.body.Aswrite_buffer());
  case plan::OpBody::loss:
    return visit(*op.body.Asloss());
  case plan::OpBody::cast:
    return visit(*op.body.Ascast());
  case plan::OpBody::pack:
    return visit(*op.body.Aspack());
  case plan::OpBody::accumulate:
    return visit(*op.body.Asaccumulate());
  case plan::OpBody::add:
    return visit(*op.body.Asadd());
  case plan::OpBody::clip_gradients:
    return visit(*op.body.Asclip_gradients());
  case plan::OpBody::shard_update:
    return visit(*op.body.Asshard_update());
  case plan::OpBody::all_gather:
    return visit(*op.body.Asall_gather());
  case plan::OpBody::reduce_scatter:
    return visit(*op.body.Asreduce_scatter());
  case plan::OpBody::cache_store:
    return visit(*op.body.Ascache_store());
  case plan::OpBody::cache_load:
    return visit(*op.body.Ascache_load());
  case plan::OpBody::unscale_gradients:
    return visit(*op.body.Asunscale_gradients());
  case plan::OpBody::outer_difference:
    return visit(*op.body.Asouter_difference());
  case plan::OpBody::outer_update:
    return visit(*op.body.Asouter_update());
  case plan::OpBody::record:
    return visit(*op.body.Asrecord());
  case plan::OpBody::wait:
  case plan::OpBody::NONE: // refused
    break;
  }
  return visit(*op.body.Aswait());
}

/// Calls `visit` with the table of the optimizer.
template <typename Visit>
decltype(auto) visitOptimizer(const plan::OptimizerUnion &optimizer,
                              Visit &&visit) {
  switch (optimizer.type) {
  case plan::Optimizer::adamw:
    return visit(*optimizer.Asadamw());
  case plan::Optimizer::adamw8bit:
    return visit(*optimizer.Asadamw8bit());
  case plan::Optimizer::lion:
    return visit(*optimizer.Aslion());
  case plan::Optimizer::muon:
    return visit(*optimizer.Asmuon());
  case plan::Optimizer::adafactor:
    return visit(*optimizer.Asadafactor());
  case plan::Optimizer::sgd:
  case plan::Optimizer::NONE: // refused
    break;
  }
  return visit(*optimizer.Assgd());
}

double learningRate(const plan::OptimizerUnion &optimizer);
/// That of parameters without a group.
double weightDecay(const plan::OptimizerUnion &optimizer);
/// Whether each parameter of a bucket is whole in a shard, and is updated by
/// itself.
inline bool updatesWhole(const plan::OptimizerUnion &optimizer) {
  return optimizer.type == plan::Optimizer::muon ||
         optimizer.type == plan::Optimizer::adafactor;
}

/// Whether a state is one of the optimizer, which a checkpoint has.
bool isOptimizerState(plan::StateRole role);

/// Whether a state is one of outer steps.
inline bool isOuterState(plan::StateRole role) {
  return role == plan::StateRole::outer ||
         role == plan::StateRole::outer_momentum;
}

/// The states that the optimizer keeps of a bucket.
std::vector<plan::StateRole>
optimizerStates(const plan::OptimizerUnion &optimizer);

/// The stream that an operation works on, or that a wait holds back.
StreamId streamOf(const plan::OpT &op);

struct StepPlan : plan::PlanT {
  /// SHA-1 of the plan's bytes, in hex digits. Ranks compare it.
  std::string hash;
  Mesh mesh;
  /// By function.
  std::vector<Reservations> reservations;
  /// By operation, for messages: "aten::mm (module 'blocks.0.fc',
  /// model.py:12)".
  std::vector<std::string> descriptions;

  /// The learning rate that the step was compiled with.
  double learningRate() const;
  /// The optimizer of an update.
  const plan::OptimizerUnion &optimizerOf(const plan::ShardUpdateT &op) const;
  /// The index of the function; a step that was checked has those that its
  /// number of micro-batches needs, each micro-batch for each variant.
  size_t indexOf(plan::Role role, uint32_t variant = 0) const;
  /// The number of variants of a step of several shapes; 1 if it has one shape.
  uint32_t numVariants() const;
  /// Whether steps run the model. Otherwise there are evaluations alone.
  bool trains() const;
  /// Whether there are functions that evaluate the model.
  bool evaluates() const;
  /// The number of inputs of the step, in one variant. Those of variant v begin
  /// at v numStepInputs(); those of the evaluation follow those of all
  /// variants.
  size_t numStepInputs() const;
  using Inputs = std::span<const std::unique_ptr<plan::InputT>>;
  /// The inputs of a variant; those of the greatest have the memory of all.
  Inputs stepInputs(uint32_t variant) const;
  Inputs greatestInputs() const { return stepInputs(numVariants() - 1); }
  Inputs evaluationInputs() const;
  /// The buffers that are states of the job: all but constants of evaluations
  /// and of variants, whose names may be those of other buffers.
  std::vector<size_t> stateBuffers() const;
  /// The fragments whose outer updates follow step `step`, counted from 1;
  /// where they overlap, the one that is updated in its last micro-batch, if
  /// any.
  std::vector<uint32_t> outerFragments(int64_t step) const;
  /// Whether outer updates run within micro-batches.
  bool overlapsOuter() const { return outer && outer->overlap; }
  /// Ranks of an axis.
  uint32_t ranks(Axis axis) const;
  /// Whether losses are scaled.
  bool scalesLoss() const { return uses(plan::OpBody::unscale_gradients); }
  /// Whether losses are weighted by an input, `lossWeight`.
  bool weightsLoss() const { return !lossWeight.empty(); }
  /// The position of that input in `inputs`, those of a variant or of the
  /// evaluation. Pre: losses are weighted, and the plan is checked.
  size_t weightIn(Inputs inputs) const;
  /// Whether the ranks sum a number while they update.
  bool sumsOverRanks() const {
    return uses(plan::OpBody::clip_gradients) || scalesLoss();
  }
  /// The bytes of its node's host arena that a rank uses; empty if it uses
  /// none.
  struct HostPart {
    uint64_t begin = 0, end = 0;
  };
  HostPart hostPart(Place place) const;
  /// Whether there is an operation of `kind`.
  bool uses(plan::OpBody kind) const;
  /// Returns whether reductions keep what their rounding leaves out.
  bool hasResiduals() const;
  /// Returns whether collectives send coded messages.
  bool codesMessages() const;
  /// Whether there is an operation of `kind`, a gather or reduction, over
  /// `axis`.
  bool uses(plan::OpBody kind, Axis axis) const;
  /// The different numbers of bytes that such operations send from one rank to
  /// another, without coding.
  std::set<uint64_t> messageBytes(plan::OpBody kind, Axis axis) const;
};

/// SHA-1 in 40 lower-case hex digits.
std::string hashBytes(std::span<const std::byte> bytes);

} // namespace fcdp
