// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
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

/// Members of a bucket start at multiples of this many bytes: matrix kernels
/// give other bits at other alignments.
inline constexpr int64_t kMemberAlignment = 64;

/// Names of the dialect's attributes on modules and functions.
inline constexpr llvm::StringLiteral kPhaseAttr = "fcdp.phase";
inline constexpr llvm::StringLiteral kRoleAttr = "fcdp.role";
/// The archive that holds the weights, a path as the user gave it.
inline constexpr llvm::StringLiteral kArchiveAttr = "fcdp.archive";
/// What the step runs on, `cpu` (if not there) or `cuda`, a string.
inline constexpr llvm::StringLiteral kTargetAttr = "fcdp.target";
/// Of a call's first result, its dimensions in memory, outermost first, where
/// they are not in order.
inline constexpr llvm::StringLiteral kDimOrderAttr = "fcdp.dim_order";
inline constexpr llvm::StringLiteral kStrategyAttr = "fcdp.strategy";
/// Micro-batches per optimizer step, i64.
inline constexpr llvm::StringLiteral kMicroBatchesAttr = "fcdp.micro_batches";
/// Units that gathers are issued ahead, i64, on a module, or on what brings one
/// copy; and that they are, a unit.
inline constexpr llvm::StringLiteral kPrefetchAttr = "fcdp.prefetch";
inline constexpr llvm::StringLiteral kPrefetchedAttr = "fcdp.prefetched";
/// Units whose reductions may run at once, i64, on a module, or on one sum.
inline constexpr llvm::StringLiteral kReductionsAttr = "fcdp.reductions";
/// How much of the forward pass runs again, a string as parseRemat has it.
inline constexpr llvm::StringLiteral kRematAttr = "fcdp.remat";
/// Whether a call of the forward pass runs again in the backward pass, a bool.
inline constexpr llvm::StringLiteral kRecomputeAttr = "fcdp.recompute";
/// Whether --fcdp-decide may cut the buckets' states otherwise, a unit.
inline constexpr llvm::StringLiteral kOpenShardingAttr = "fcdp.open_sharding";
/// Whether --fcdp-decide may merge buckets, a unit.
inline constexpr llvm::StringLiteral kOpenMergingAttr = "fcdp.open_merging";
/// That a call of the backward pass runs again what the forward pass ran, a
/// unit.
inline constexpr llvm::StringLiteral kRepeatedAttr = "fcdp.repeated";
/// Greatest bytes of buckets that were merged, i64.
inline constexpr llvm::StringLiteral kBucketBytesAttr = "fcdp.bucket_bytes";
/// On an argument: the event of a token that the function before has recorded,
/// i64.
inline constexpr llvm::StringLiteral kEventAttr = "fcdp.event";

} // namespace fcdp

namespace fcdp {

/// Whether `name` is a target: `cpu` or `cuda`.
bool isTarget(llvm::StringRef name);

/// Whether `type` is static, holds integers, floats or complex numbers, and
/// its bytes fit in an int64_t; `byteSize` asks for it.
bool hasByteSize(mlir::RankedTensorType type);
/// Bytes of `type`'s elements.
int64_t byteSize(mlir::RankedTensorType type);
/// Bytes of one element, an integer, a float or a complex number of these;
/// `i1` takes a byte.
int64_t elementBytes(mlir::Type type);

} // namespace fcdp

#include "dialects/Fcdp/FcdpDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Fcdp/FcdpTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Fcdp/FcdpAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Fcdp/FcdpOps.h.inc"

namespace fcdp {

/// The phase that `module` says it is in, or none.
std::optional<Phase> getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, Phase phase);

/// The one mesh of a module from the sharded phase on, or null.
MeshOp getMesh(mlir::ModuleOp module);

/// Over how many ranks states of `sharding` are cut: so many different parts of
/// a bucket there are.
int64_t countParts(Sharding sharding, MeshOp mesh);

/// Whether a collective is over `axis`, alone or among others.
bool isOver(mlir::ArrayAttr axes, Axis axis);

/// Whether gathers of the bucket's copy, and reductions of its gradients, are
/// one step over all ranks, where both axes have several.
bool gathersFlat(BucketOp bucket, MeshOp mesh);
bool reducesFlat(BucketOp bucket, MeshOp mesh);

/// Micro-batches of an optimizer step; 1 if the module does not say.
int64_t getMicroBatches(mlir::ModuleOp module);

/// The type of a state of `bucket`; of `resident`, that of a node slice.
mlir::RankedTensorType getStateType(BucketOp bucket, StateRole role,
                                    MeshOp mesh);

/// Where a state of `role` is.
Arena getArena(StateRole role);

/// Whether `buffer`, where given, is device memory of at least `type`'s bytes;
/// `what` names it in the error.
mlir::LogicalResult verifyBuffer(mlir::Operation *op, BufferAttr buffer,
                                 mlir::RankedTensorType type,
                                 llvm::StringRef what = "buffer");

} // namespace fcdp
