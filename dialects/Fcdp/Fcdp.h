// SPDX-License-Identifier: Apache-2.0
#pragma once

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
inline constexpr llvm::StringLiteral kStrategyAttr = "fcdp.strategy";
/// Micro-batches per optimizer step, i64.
inline constexpr llvm::StringLiteral kMicroBatchesAttr = "fcdp.micro_batches";

} // namespace fcdp

#include "dialects/Fcdp/FcdpDialect.h.inc"
#include "dialects/Fcdp/FcdpEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Fcdp/FcdpTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Fcdp/FcdpAttrs.h.inc"
#define GET_OP_CLASSES
#include "dialects/Fcdp/FcdpOps.h.inc"

namespace fcdp {

/// Bytes of `type`'s elements. The element type must be an integer or float;
/// `i1` takes a byte.
int64_t byteSize(mlir::RankedTensorType type);
/// Bytes of one element.
int64_t elementBytes(mlir::Type type);

/// The phase that `module` says it is in, or none.
std::optional<Phase> getPhase(mlir::ModuleOp module);
void setPhase(mlir::ModuleOp module, Phase phase);

/// The one mesh of a module from the sharded phase on, or null.
MeshOp getMesh(mlir::ModuleOp module);

} // namespace fcdp
