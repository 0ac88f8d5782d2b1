// SPDX-License-Identifier: Apache-2.0
//
// When each piece of device memory is in use while a function of a scheduled or
// planned step runs. The plan of buffers, the object's table of reserved memory
// and the report of device memory read it. The proofs of lib/Verification do
// not, so they find mistakes of this code.
//
// This is a part of planning, not of the analyses that the proofs link.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Planning/Memory/Activations.h"
#include "llvm/ADT/DenseMap.h"

namespace fcdp {

/// The time in which a piece of memory is in use. Positions count the
/// operations of the function, of which there are `length`.
struct MemorySpan {
  /// The first operation that writes to the memory; 0 if the function before it
  /// did.
  int64_t firstWrite = 0;
  /// The operation from which on other values may use the memory, because
  /// compute has waited for all of its users; `length` if it is in use when the
  /// function ends.
  int64_t release = 0;
};

/// The memory of a buffered operation's result, or of a reduction's scratch.
struct BufferUse {
  mlir::Operation *op;
  bool isScratch;
  MemorySpan span;
  /// The release, or null. A release on a stream means that the buffer is in
  /// flight when its function ends.
  ReleaseOp releasedBy;

  bool isInFlight() const {
    return releasedBy && ReleaseOp(releasedBy).getStream();
  }
};

/// The memory of a state of role `prefetched`, while a copy that the function
/// before has put there is in use. The next copy in that memory is a buffer.
struct CopyUse {
  StateOp state;
  MemorySpan span;
};

struct FunctionTimeline {
  int64_t length = 0;
  /// The function's own buffers in the program's order. The span begins with
  /// the first gradient that is written in place. The scratch of a reduction
  /// follows its result.
  std::vector<BufferUse> buffers;
  /// Buffers that may be in flight when the function before ends. They are in
  /// use until compute has waited for the token that follows their release.
  std::vector<BufferUse> liveIns;
  /// States with a live-in copy, in the module's order.
  std::vector<CopyUse> copies;
  /// Results of operators.
  std::vector<Activation> results;
};

/// States of other roles than `prefetched` are in use at all times.
///
/// The time is linear in the operations and their operands and, for buffers in
/// flight, in the tokens that their function returns.
class MemoryTimeline {
public:
  explicit MemoryTimeline(mlir::ModuleOp module);

  const FunctionTimeline &lookup(mlir::func::FuncOp function) const {
    return functions.find(function)->second;
  }
  /// Updates the buffers and the results of `function`, after the set of
  /// gradients that are written in place has changed.
  void update(mlir::func::FuncOp function);

private:
  llvm::DenseMap<mlir::Operation *, FunctionTimeline> functions;
};

} // namespace fcdp
