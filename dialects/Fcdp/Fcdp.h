// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/FcdpInterfaces.h"
#include "dialects/Fcdp/StateRoles.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace fcdp {

struct Pool : mlir::SideEffects::Resource::Base<Pool> {
  llvm::StringRef getName() final { return "Pool"; }
};
struct State : mlir::SideEffects::Resource::Base<State> {
  llvm::StringRef getName() final { return "State"; }
};
struct Accumulator : mlir::SideEffects::Resource::Base<Accumulator> {
  llvm::StringRef getName() final { return "Accumulator"; }
};
struct HostCache : mlir::SideEffects::Resource::Base<HostCache> {
  llvm::StringRef getName() final { return "HostCache"; }
};
struct Order : mlir::SideEffects::Resource::Base<Order> {
  llvm::StringRef getName() final { return "Order"; }
};

template <typename ConcreteType>
class InImported : public mlir::OpTrait::TraitBase<ConcreteType, InImported> {};
template <typename ConcreteType>
class InSharded : public mlir::OpTrait::TraitBase<ConcreteType, InSharded> {};
template <typename ConcreteType>
class InScheduled : public mlir::OpTrait::TraitBase<ConcreteType, InScheduled> {
};
template <typename ConcreteType>
class InPlanned : public mlir::OpTrait::TraitBase<ConcreteType, InPlanned> {};
template <typename ConcreteType>
class RunsOperators
    : public mlir::OpTrait::TraitBase<ConcreteType, RunsOperators> {};
template <typename ConcreteType>
class TakesNoTime : public mlir::OpTrait::TraitBase<ConcreteType, TakesNoTime> {
};
template <typename ConcreteType>
class RunsNothing : public mlir::OpTrait::TraitBase<ConcreteType, RunsNothing> {
};
template <WorkKind kind>
struct Works {
  template <typename ConcreteType>
  struct Impl : mlir::OpTrait::TraitBase<ConcreteType, Impl> {
    static constexpr WorkKind getWorkKind() { return kind; }
  };
};
template <typename ConcreteType>
class OrdersStreams
    : public mlir::OpTrait::TraitBase<ConcreteType, OrdersStreams> {};

/// Members of a bucket start at multiples of this many bytes, because matrix
/// kernels give different bits at different alignments.
inline constexpr int64_t kMemberAlignment = 64;
/// The longest side of which a state has a square.
inline constexpr int64_t kMostSide = 1'000'000;

/// The event of a live-in token, an i64 on an argument. The previous function
/// has recorded it.
inline constexpr llvm::StringLiteral kEventAttr = "fcdp.event";

} // namespace fcdp

namespace fcdp {

/// Returns whether `type` is static, has elements of integer, float or complex
/// type, and its size in bytes fits in an int64_t. `byteSize` requires this.
bool hasByteSize(mlir::RankedTensorType type);
/// Returns the size of `type` in bytes.
int64_t byteSize(mlir::RankedTensorType type);
/// Returns the size of one element of integer, float or complex type in bytes.
/// An `i1` takes one byte.
int64_t elementBytes(mlir::Type type);
/// Returns whether states and copies of parameters may have this element type:
/// floats, and the bytes of packed parameters.
bool isCopyElement(mlir::Type element);

} // namespace fcdp

#include "dialects/Fcdp/FcdpDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Fcdp/FcdpTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/Fcdp/FcdpOps.h.inc"

namespace fcdp {

//===----------------------------------------------------------------------===//
// Discardable attributes. FcdpDialect.td says what each means. Getters return
// none where the attribute is absent, unless they name a default.
//===----------------------------------------------------------------------===//

std::optional<Phase> getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, Phase phase);

std::optional<llvm::StringRef> getArchive(mlir::ModuleOp module);
void setArchive(mlir::ModuleOp module, llvm::StringRef path);
std::optional<llvm::StringRef> getEvaluationArchive(mlir::ModuleOp module);
void setEvaluationArchive(mlir::ModuleOp module, llvm::StringRef path);

/// Returns the archives of variants from 1 on; empty if there are none.
llvm::SmallVector<llvm::StringRef> getVariantArchives(mlir::ModuleOp module);
void setVariantArchives(mlir::ModuleOp module,
                        llvm::ArrayRef<llvm::StringRef> paths);

/// Returns the paths of the archives that a step was exported to, by number:
/// that of the step, of its evaluation, and of its variants from 1 on. They are
/// as given, or as the module has them. A path is empty if it is not known.
std::vector<std::string> getArchives(llvm::StringRef step,
                                     llvm::StringRef evaluation,
                                     llvm::ArrayRef<llvm::StringRef> variants);
std::vector<std::string> getArchives(mlir::ModuleOp module);
/// Returns the attribute that names the archive of that number.
llvm::StringRef getArchiveAttr(size_t number);

/// Returns `cpu` by default.
Target getTarget(mlir::ModuleOp module);
void setTarget(mlir::ModuleOp module, Target target);

std::optional<llvm::StringRef> getRemat(mlir::ModuleOp module);
void setRemat(mlir::ModuleOp module, llvm::StringRef remat);

/// Returns `unit` by default.
Wrap getWrap(mlir::ModuleOp module);
void setWrap(mlir::ModuleOp module, Wrap wrap);

/// Returns where values of the forward pass are kept for the backward pass, as
/// the option has it.
std::optional<llvm::StringRef> getActivations(mlir::ModuleOp module);
void setActivations(mlir::ModuleOp module, llvm::StringRef mode);

/// Returns the name of the input that weights losses.
std::optional<llvm::StringRef> getLossWeight(mlir::ModuleOp module);
void setLossWeight(mlir::ModuleOp module, llvm::StringRef input);

/// Returns the rows of a chunk of logits, as the option has it.
std::optional<llvm::StringRef> getLossChunk(mlir::ModuleOp module);
void setLossChunk(mlir::ModuleOp module, llvm::StringRef rows);

/// Returns how frozen matrices are packed, as the option has it.
std::optional<llvm::StringRef> getFrozen(mlir::ModuleOp module);
void setFrozen(mlir::ModuleOp module, llvm::StringRef packing);
/// Returns whether pointwise operators became kernels, as the option has it.
std::optional<llvm::StringRef> getFuse(mlir::ModuleOp module);
void setFuse(mlir::ModuleOp module, llvm::StringRef mode);

std::optional<int64_t> findMicroBatches(mlir::ModuleOp module);
/// Returns the micro-batches per optimizer step; 1 by default.
int64_t getMicroBatches(mlir::ModuleOp module);
void setMicroBatches(mlir::ModuleOp module, int64_t count);

/// Returns the norm that all gradients are clipped to, or none if they are not
/// clipped.
std::optional<double> getClipNorm(mlir::ModuleOp module);
void setClipNorm(mlir::ModuleOp module, double norm);

/// Returns the settings of outer steps, or null if nodes are synchronized in
/// every step.
OuterAttr getOuter(mlir::ModuleOp module);
void setOuter(mlir::ModuleOp module, OuterAttr outer);
/// Returns the number of fragments of outer steps; 0 without them.
int64_t countFragments(mlir::ModuleOp module);

/// Returns whether the scale of an update, or of the clipping, is the user's
/// choice.
bool hasOwnScale(mlir::Operation *op);

std::optional<int64_t> getBucketBytes(mlir::ModuleOp module);
void setBucketBytes(mlir::ModuleOp module, int64_t bytes);

bool isShardingOpen(mlir::ModuleOp module);
void setShardingOpen(mlir::ModuleOp module, bool isOpen);
bool isMergingOpen(mlir::ModuleOp module);
void setMergingOpen(mlir::ModuleOp module, bool isOpen);

std::optional<llvm::StringRef> getStrategy(mlir::ModuleOp module);
void setStrategy(mlir::ModuleOp module, llvm::StringRef strategy);

/// Return and set the distance of fetches. `op` is a module, or the gather or
/// load that brings one copy.
std::optional<int64_t> getPrefetch(mlir::Operation *op);
void setPrefetch(mlir::Operation *op, int64_t units);
bool isPrefetched(mlir::ModuleOp module);
void setPrefetched(mlir::ModuleOp module);

/// Return and set the number of reductions in flight. `op` is a module, or the
/// operation that accumulates the result of one reduction.
std::optional<int64_t> getReductions(mlir::Operation *op);
void setReductions(mlir::Operation *op, int64_t units);

/// Return and set the role. `op` is a function.
std::optional<Role> findRole(mlir::Operation *op);
void setRole(mlir::Operation *op, Role role);
std::optional<int64_t> findVariant(mlir::Operation *op);
void setVariant(mlir::Operation *op, int64_t variant);

/// Return and set the choice of recomputation. `op` is an `aten.call`.
std::optional<bool> getRecompute(mlir::Operation *op);
void setRecompute(mlir::Operation *op, bool recompute);
void removeRecompute(mlir::Operation *op);
/// Return and set the numbers of the results that are in host memory between
/// the forward and the backward pass. `op` is an `aten.call`.
std::optional<llvm::ArrayRef<int64_t>> getOnHost(mlir::Operation *op);
void setOnHost(mlir::Operation *op, llvm::ArrayRef<int64_t> results);
void removeOnHost(mlir::Operation *op);
std::optional<int64_t> getCheckpointRegion(mlir::Operation *op);
void setCheckpointRegion(mlir::Operation *op, int64_t region);
void removeCheckpointRegion(mlir::Operation *op);
bool isRepeated(mlir::Operation *op);
void setRepeated(mlir::Operation *op);
std::optional<llvm::ArrayRef<int64_t>> getDimOrder(mlir::Operation *op);
void setDimOrder(mlir::Operation *op, llvm::ArrayRef<int64_t> order);
/// Return and set the attributes that name the parameters of which operands are
/// views, and those whose gradients results are; null if there are none.
mlir::ArrayAttr getParameterOperands(mlir::Operation *op);
void setParameterOperands(mlir::Operation *op, mlir::ArrayAttr parameters);
mlir::ArrayAttr getGradientResults(mlir::Operation *op);
void setGradientResults(mlir::Operation *op, mlir::ArrayAttr parameters);

//===----------------------------------------------------------------------===//
// Modules and buckets
//===----------------------------------------------------------------------===//

/// Returns the mesh of a module in phase sharded or later, or null.
MeshOp getMesh(mlir::ModuleOp module);

/// Returns the number of different parts of a bucket with that sharding.
int64_t countParts(Sharding sharding, MeshOp mesh);

/// Return whether gathers of the bucket's copy, or reductions of its gradients,
/// run in one step over all ranks. That needs several nodes and several ranks
/// per node.
bool gathersFlat(BucketOp bucket, MeshOp mesh);
bool reducesFlat(BucketOp bucket, MeshOp mesh);

/// Returns whether each gather of `bucket` between nodes refers to the slice in
/// host memory of the one before.
bool gathersReferToSlice(BucketOp bucket);

/// Returns the forms in which gathers and reductions of `bucket` send values
/// between nodes, each with the name of its attribute.
llvm::SmallVector<std::pair<llvm::StringRef, llvm::StringRef>>
getMessageForms(BucketOp bucket);
/// Returns the forms in which reductions may send values on `target`; on CPUs,
/// these are all. The first is that of the values themselves.
llvm::SmallVector<llvm::StringRef> getReductionForms(Target target);
/// Lets reductions of `bucket` send values in one of these forms.
void setReductionForm(BucketOp bucket, llvm::StringRef form);
/// Verifies these forms (C13 and C14 of fcdp.bucket).
mlir::LogicalResult verifyMessages(BucketOp bucket);

/// Returns the type in which the optimizer updates the parameters of `bucket`
/// and keeps its own states.
mlir::Type getOptimizerType(BucketOp bucket);

/// Returns the type of a state of `bucket`. For `resident`, it is the type of a
/// node slice.
mlir::RankedTensorType getStateType(BucketOp bucket, StateRole role,
                                    MeshOp mesh);

/// Returns whether a state of `role` belongs to the optimizer: a master, or a
/// state that it keeps for each parameter.
bool isOptimizerState(StateRole role);

/// Returns whether a state of `role` belongs to outer steps.
bool isOuterState(StateRole role);

/// Returns whether a step reduces the gradients of `bucket` within a node only.
bool reducesWithinNode(BucketOp bucket);

/// Returns whether steps of the module do so.
bool reducesWithinNode(mlir::ModuleOp module);

/// Verifies a bucket whose gradients a step reduces within a node only, and a
/// state of `bucket`, which must do so if nodes have the state in common.
mlir::LogicalResult verifyNodes(BucketOp bucket);
mlir::LogicalResult verifyNodes(StateOp state, BucketOp bucket);

/// Verifies that `number`, the setting `name`, is a finite f64. It must be from
/// 0 on unless `least` is negative.
mlir::LogicalResult
verifyNumber(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
             llvm::StringRef name, mlir::FloatAttr number, double least = 0);

/// Returns the number of ranks over which a step reduces gradients: all ranks
/// or, with outer steps, the ranks of a node.
int64_t countReducedRanks(mlir::ModuleOp module);

/// Returns the number of elements of an optimizer's state for a parameter.
/// There is a scale for each block of a moment in 8 bits. Parameters of two or
/// more dimensions have factors of the second moment; the others have
/// `variance`. A matrix has squares of its sides of at most `maxSide`.
int64_t countStateElements(StateRole role, mlir::RankedTensorType parameter,
                           int64_t maxSide = 0);

/// Returns the arena of states of `role`; of copies, that of their first tier.
Arena getArena(StateRole role);

/// Creates a state named after its bucket and role, in `arena` or else in its
/// role's arena. Does not insert it into the module.
StateOp createState(BucketOp bucket, StateRole role,
                    mlir::RankedTensorType type,
                    std::optional<Arena> arena = std::nullopt);

} // namespace fcdp
