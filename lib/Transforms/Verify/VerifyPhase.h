// SPDX-License-Identifier: Apache-2.0
//
// Checks that passes share.
#pragma once

#include "fcdp/Analysis/Buffers.h"
#include "fcdp/Transforms/Passes.h"

namespace fcdp {

/// Fails unless `module` is in `phase`, at least sharded, and has everything
/// that passes of that phase rely on: a mesh, the functions of a step, the
/// states of its buckets.
mlir::LogicalResult requirePhase(mlir::ModuleOp module, Phase phase);

/// Checks the properties that hold from phase sharded on: each micro-batch
/// accumulates each gradient once, in the mode of its role, and @update clips
/// and updates once.
mlir::LogicalResult verifySteps(mlir::ModuleOp module);

/// Checks how @update handles the gradients: it clips them to the module's
/// norm, divides them by the number of ranks and micro-batches, and has the
/// states that each optimizer needs. Checks that no function has more than one
/// loss.
mlir::LogicalResult verifyUpdate(mlir::ModuleOp module);

/// Checks that, if nodes train by themselves, a bucket has the states by which
/// some steps synchronize them, and a number of the updates that do.
mlir::LogicalResult
verifyStatesOfNodes(BucketOp bucket,
                    llvm::function_ref<bool(StateRole)> hasState);

/// Checks that a function which synchronizes nodes updates each bucket of its
/// number once. If it is not a micro-batch, it must do nothing else.
mlir::LogicalResult verifySynchronization(mlir::ModuleOp module,
                                          mlir::func::FuncOp function);

/// Checks that only such functions send differences between nodes, and that
/// these become their mean over nodes.
mlir::LogicalResult verifyDifferences(mlir::ModuleOp module,
                                      mlir::func::FuncOp function);

/// Returns the function @step of a module in phase `imported`. Fails unless it
/// has one block, no arguments and no results.
mlir::FailureOr<mlir::func::FuncOp> requireImported(mlir::ModuleOp module);

/// Returns that function and, if the step has several shapes, those of its
/// variants after it, from the smallest to the greatest.
mlir::FailureOr<mlir::SmallVector<mlir::func::FuncOp>>
requireSteps(mlir::ModuleOp module);

/// Returns the function of an imported module that evaluates the model, or
/// null.
mlir::func::FuncOp findEvaluation(mlir::ModuleOp module);

/// Returns whether a collective over both axes stays one step: its bucket has
/// flat collectives, and nothing needs the node slice.
bool staysWhole(CollectiveOpInterface op, const mlir::SymbolTable &symbols,
                MeshOp mesh);

/// Fails unless each collective of `module` is of flat tensors, and is either
/// over one axis or stays one step.
mlir::LogicalResult verifyOneLevel(mlir::ModuleOp module);

/// Fails unless all gathers over the same axes are on one stream, and all
/// reductions over the same axes are, too. Each of these has a communicator,
/// which only one stream may use. All must have a stream.
mlir::LogicalResult verifyCommunicators(mlir::ModuleOp module);

/// Fails unless every function that may precede it brings in each copy that a
/// function expects to be prefetched, after its last use of the copy that is
/// overwritten. The prefetched copy must not be stale.
mlir::LogicalResult verifyPrefetched(mlir::ModuleOp module);

/// Fails unless functions with the same successors have the same states in
/// flight at their ends.
mlir::LogicalResult verifyInFlightStates(mlir::ModuleOp module);

/// Fails unless functions return the tokens that the functions after them take.
mlir::LogicalResult verifyTokens(mlir::ModuleOp module);

/// Fails unless every record has an event of its own. Tokens that cross a
/// boundary as the same argument share the argument's event.
mlir::LogicalResult verifyEvents(mlir::ModuleOp module);

/// Fails unless every buffer and state has a place of its size.
mlir::LogicalResult verifyBuffers(mlir::ModuleOp module);

} // namespace fcdp
