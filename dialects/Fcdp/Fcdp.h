// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/FcdpInterfaces.h"
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

/// Members of a bucket start at multiples of this many bytes, because matrix
/// kernels give different bits at different alignments.
inline constexpr int64_t kMemberAlignment = 64;

/// Names of the dialect's attributes on modules and functions.
inline constexpr llvm::StringLiteral kPhaseAttr = "fcdp.phase";
inline constexpr llvm::StringLiteral kRoleAttr = "fcdp.role";
/// The archive with the weights: a path as the user gave it.
inline constexpr llvm::StringLiteral kArchiveAttr = "fcdp.archive";
/// The device that the step runs on, a string: `cpu` (default) or `cuda`.
inline constexpr llvm::StringLiteral kTargetAttr = "fcdp.target";
/// Dimensions of a call's first result in memory order, outermost first. Absent
/// if they are in order.
inline constexpr llvm::StringLiteral kDimOrderAttr = "fcdp.dim_order";
inline constexpr llvm::StringLiteral kStrategyAttr = "fcdp.strategy";
/// Micro-batches per optimizer step, i64.
inline constexpr llvm::StringLiteral kMicroBatchesAttr = "fcdp.micro_batches";
/// kPrefetchAttr is the number of units that gathers are issued ahead, an i64
/// on a module or on the operation that brings one copy. kPrefetchedAttr is a
/// unit attribute on operations that were moved ahead.
inline constexpr llvm::StringLiteral kPrefetchAttr = "fcdp.prefetch";
inline constexpr llvm::StringLiteral kPrefetchedAttr = "fcdp.prefetched";
/// Number of units whose reductions may run at once, an i64 on a module or on
/// one accumulate.
inline constexpr llvm::StringLiteral kReductionsAttr = "fcdp.reductions";
/// The part of the forward pass that is recomputed, a string that parseRemat
/// reads.
inline constexpr llvm::StringLiteral kRematAttr = "fcdp.remat";
/// Whether a call of the forward pass is recomputed in the backward pass, a
/// bool.
inline constexpr llvm::StringLiteral kRecomputeAttr = "fcdp.recompute";
/// A unit attribute: --fcdp-decide may change the sharding of buckets.
inline constexpr llvm::StringLiteral kOpenShardingAttr = "fcdp.open_sharding";
/// A unit attribute: --fcdp-decide may merge buckets.
inline constexpr llvm::StringLiteral kOpenMergingAttr = "fcdp.open_merging";
/// A unit attribute of a call in the backward pass that recomputes one of the
/// forward pass.
inline constexpr llvm::StringLiteral kRepeatedAttr = "fcdp.repeated";
/// The limit on the size of merged buckets in bytes, an i64.
inline constexpr llvm::StringLiteral kBucketBytesAttr = "fcdp.bucket_bytes";
/// The event of a live-in token, an i64 on an argument. The previous function
/// has recorded it.
inline constexpr llvm::StringLiteral kEventAttr = "fcdp.event";

} // namespace fcdp

namespace fcdp {

/// Returns whether `name` is a target: `cpu` or `cuda`.
bool isTarget(llvm::StringRef name);

/// Returns whether `type` is static, has elements of integer, float or complex
/// type, and its size in bytes fits in an int64_t. `byteSize` requires it.
bool hasByteSize(mlir::RankedTensorType type);
/// Returns the size of `type` in bytes.
int64_t byteSize(mlir::RankedTensorType type);
/// Returns the size of one element of integer, float or complex type in bytes.
/// An `i1` takes one byte.
int64_t elementBytes(mlir::Type type);

} // namespace fcdp

#include "dialects/Fcdp/FcdpDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Fcdp/FcdpTypes.h.inc"
#define GET_OP_CLASSES
#include "dialects/Fcdp/FcdpOps.h.inc"

namespace fcdp {

/// Returns the phase of `module`, or none if it has no phase.
std::optional<Phase> getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, Phase phase);

/// Returns the mesh of a module in phase sharded or later, or null.
MeshOp getMesh(mlir::ModuleOp module);

/// Returns the number of different parts of a bucket with that sharding.
int64_t countParts(Sharding sharding, MeshOp mesh);

/// Return whether gathers of the bucket's copy, or reductions of its gradients,
/// run in one step over all ranks. That needs several nodes and several ranks
/// per node.
bool gathersFlat(BucketOp bucket, MeshOp mesh);
bool reducesFlat(BucketOp bucket, MeshOp mesh);

/// Returns the micro-batches per optimizer step; 1 if the module does not say.
int64_t getMicroBatches(mlir::ModuleOp module);

/// Returns the type of a state of `bucket`; for `resident`, that of a node
/// slice.
mlir::RankedTensorType getStateType(BucketOp bucket, StateRole role,
                                    MeshOp mesh);

/// Returns the arena of states of `role`.
Arena getArena(StateRole role);

} // namespace fcdp
