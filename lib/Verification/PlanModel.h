// SPDX-License-Identifier: Apache-2.0
//
// A planned module in the form that the proofs use: buckets, states, and the
// operations of each function that access an arena or order streams.
#pragma once

#include "AccessMap.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Verification/PlanProofs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

struct BucketModel {
  BucketOp op;
  /// Index of the bucket's state by role, or -1.
  std::array<int32_t, kNumStateRoles> states;

  int32_t getState(StateRole role) const {
    return states[static_cast<size_t>(role)];
  }
};

struct StateModel {
  StateOp op;
  int32_t bucket;
  Extent extent;
};

/// Memory that a value refers to: a buffer of the function, or a state.
struct Root {
  int32_t buffer = -1, state = -1;
  bool operator==(const Root &other) const {
    return buffer == other.buffer && state == other.state;
  }
};

/// The result of a gather, load, cast, pack, reduction or addition.
struct BufferModel {
  mlir::Operation *op;
  Extent extent;
  /// Bytes that the operation writes. A gather whose input is inside its result
  /// writes only the rest.
  Extent written;
  /// Index of the buffer of that input, or -1.
  int32_t part = -1;
};

struct PlanInstruction {
  mlir::Operation *op;
  Stream stream;
  /// Memory of all operands, without duplicates.
  llvm::SmallVector<Root, 2> reads = {};
  /// Index of the result's buffer, or -1.
  int32_t result = -1;
  /// For a call that writes a gradient in place, the index of the pack's buffer
  /// and the bytes that it writes; otherwise -1.
  int32_t packed = -1;
  Extent place = {};
  /// Index of the bucket or state that the operation refers to, or -1.
  int32_t bucket = -1, state = -1;
  /// Index of the state that a gather computes differences from, or in which a
  /// reduction keeps its residual, or -1.
  int32_t reference = -1;
  /// Bytes of the device arena that are free for results of operators from this
  /// operation on, or until it.
  std::vector<Extent> freeRanges = {};
};

struct FunctionModel {
  mlir::func::FuncOp op;
  Role role;
  int64_t number = 0;
  std::vector<BufferModel> buffers;
  std::vector<PlanInstruction> instructions;
  /// The events of its live-in tokens. The function waits for no other event
  /// that it has not recorded before.
  std::vector<int64_t> liveInEvents;
};

struct PlanModel {
  MeshOp mesh;
  std::vector<BucketModel> buckets;
  std::vector<StateModel> states;
  std::map<FamilyMember, FunctionModel> functions;
  ArenaArray<int64_t> arenaBytes;

  /// Returns failure, with an error, if a buffer is missing or a name is
  /// unknown.
  static mlir::FailureOr<PlanModel> build(mlir::ModuleOp module,
                                          llvm::ArrayRef<FreeRange> free = {});

  /// Returns the first parameter's name and the bucket: `'w' of @bucket.a`.
  std::string describe(int32_t bucket) const;
  /// Describes the bucket that `instruction` works on; empty if there is none.
  std::string describe(const FunctionModel &function,
                       const PlanInstruction &instruction) const;
};

/// Returns the first parameter's name and the bucket: `'w' of @bucket.a`.
std::string describeBucket(BucketOp bucket);

} // namespace fcdp
