// SPDX-License-Identifier: Apache-2.0
//
// A planned module as its proofs see it: buckets, states, and of each function
// what touches an arena or orders streams.
#pragma once

#include "AccessMap.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Verification/PlanProofs.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {

inline constexpr size_t kNumStateRoles = 11;

struct BucketModel {
  BucketOp op;
  /// By role, the index of the bucket's state, or -1.
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

/// Memory that a value shows: a buffer of the function or a state.
struct Root {
  int32_t buffer = -1, state = -1;
  bool operator==(const Root &other) const {
    return buffer == other.buffer && state == other.state;
  }
};

/// The result of a gather, load, cast, pack or reduction.
struct BufferModel {
  mlir::Operation *op;
  Extent extent;
  /// What the operation writes: of a gather whose input stands inside its
  /// result, the rest.
  Extent written;
  /// Index of that input, or -1.
  int32_t part = -1;
};

struct PlanInstruction {
  mlir::Operation *op;
  Stream stream;
  /// Of all operands, each once.
  llvm::SmallVector<Root, 2> reads = {};
  /// Index of the buffer that is the result, or -1.
  int32_t result = -1;
  /// Of a call that makes a gradient in place, the index of the pack's buffer,
  /// and the bytes that it writes; else -1.
  int32_t packed = -1;
  Extent place = {};
  /// Index of the bucket or state that the operation names, or -1.
  int32_t bucket = -1, state = -1;
  /// Bytes of the device arena that results of operators may be in from here
  /// on, or up to here.
  std::vector<Extent> free = {};
};

struct FunctionModel {
  mlir::func::FuncOp op;
  Role role;
  std::vector<BufferModel> buffers;
  std::vector<PlanInstruction> instructions;
};

struct PlanModel {
  MeshOp mesh;
  std::vector<BucketModel> buckets;
  std::vector<StateModel> states;
  /// By role; of a family that has it.
  std::map<Role, FunctionModel> functions;
  int64_t deviceBytes = 0, hostBytes = 0;

  /// Fails where a buffer is missing or a name leads nowhere.
  static mlir::FailureOr<PlanModel> build(mlir::ModuleOp module,
                                          llvm::ArrayRef<FreeRange> free = {});

  /// `'w' of @bucket.a`: the first parameter's name and the bucket.
  std::string describe(int32_t bucket) const;
  /// What `op` works on, or nothing.
  std::string describe(const FunctionModel &function,
                       const PlanInstruction &instruction) const;
};

/// `'w' of @bucket.a`: the name of its first parameter, and its own.
std::string describeBucket(BucketOp bucket);

} // namespace fcdp
