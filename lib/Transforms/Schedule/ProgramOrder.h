// SPDX-License-Identifier: Apache-2.0
//
// A function's operations on streams, in the order of the program.
#pragma once

#include "fcdp/Analysis/Accesses.h"
#include "fcdp/Analysis/Buffers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <array>

namespace fcdp {

/// A state that is in flight when a function ends.
struct Carried {
  mlir::StringAttr state;
  /// The stream of the last operation that writes it.
  Stream stream;
  /// Whether the state is an accumulator, for which memory of the function
  /// before is in use.
  bool isSum;
};

/// The states in flight at both ends of a function.
struct Boundary {
  llvm::SmallVector<Carried> liveIns, liveOuts;
};

/// Walks one function in program order and inserts records, waits and
/// releases.
class ProgramOrder {
public:
  ProgramOrder(mlir::func::FuncOp function, const Boundary &boundary,
               const Accesses &accesses)
      : function(function), block(function.front()),
        builder(function.getContext()), boundary(boundary), accesses(accesses) {
    clocks.fill(Clock(kNumStreams + boundary.liveIns.size()));
    // The functions before this one were joined into compute, except for
    // live-ins, so their work counts as compute's.
    clocks[0][0] = 1;
  }

  /// Fails if nothing writes to a state that is to be in flight at the end.
  llvm::LogicalResult run();

private:
  /// For each stream, the number of its operations that are known to be done;
  /// after these, for each live-in token, whether its work is known to be done.
  using Clock = llvm::SmallVector<int64_t, 2 * kNumStreams>;
  static void merge(Clock &clock, const Clock &other);

  /// An operation on another stream than compute.
  struct Async {
    /// The operation; null if it is in the function before.
    mlir::Operation *op;
    Stream stream;
    /// The operations that are done once it is done.
    Clock done;
    /// The entry of a clock that counts it.
    size_t entry;
    /// The token of its record; null until an operation waits for it.
    mlir::Value token;
  };

  /// The memory of a value.
  struct Buffer {
    /// Operations that access it and have not been issued yet.
    llvm::SmallPtrSet<mlir::Operation *, 4> open;
    /// The accesses that run on another stream than compute.
    llvm::SmallVector<mlir::Operation *, 2> asyncs;
  };

  void takeArguments();
  llvm::LogicalResult giveResults();
  void collectBuffer(mlir::Value value);
  void collectLiveOut(mlir::Operation *op);
  void issue(mlir::Operation *op, Stream stream);
  /// Makes `stream`, before `op`, wait for the asynchronous work that makes
  /// what `op` reads.
  void waitForInputs(mlir::Operation *op, Stream stream);
  void waitForHostWindow(mlir::Operation *op, Stream stream);
  /// Makes `stream`, before `op`, wait for the asynchronous accesses to what
  /// `op` writes.
  void waitForWritten(mlir::Operation *op, Stream stream);
  /// Notes the states that `op`, on another stream than compute, accesses.
  void noteAccesses(mlir::Operation *op);
  void wait(Stream stream, Async &async);
  /// Returns the token of `async`, which is recorded after it.
  mlir::Value getToken(Async &async);
  /// Returns the last operation on another stream than compute that writes to
  /// `state`, in this function or the one before, or null.
  Async *findWriter(mlir::StringAttr state);
  void waitForCompute(Stream stream);
  /// Makes compute wait for the live-in accumulates.
  void waitForSums();
  /// Makes `stream` wait for the live-in work that writes to the state of `op`.
  void waitForLiveIn(mlir::Operation *op, Stream stream);
  /// Marks `op` as done with the buffers that it uses.
  void finishUses(mlir::Operation *op);
  /// Joins compute with the asynchronous accesses to `value` and releases it.
  void release(mlir::Value value);
  /// Releases the values that `op` uses, which may be in flight at the
  /// function's end, on its own stream.
  void releaseLate(mlir::Operation *op);
  /// Makes compute wait for the stores before `store` after which it has
  /// computed. Nothing else waits for a store that is the last access to its
  /// value.
  void waitForStoresBefore(mlir::Operation *store);
  /// Returns whether compute has waited for all accesses to `value`.
  bool isDone(mlir::Value value);
  bool isCovered(const Async &async) const {
    return clocks[0][async.entry] >= async.done[async.entry];
  }

  mlir::func::FuncOp function;
  mlir::Block &block;
  mlir::OpBuilder builder;
  const Boundary &boundary;
  const Accesses &accesses;
  /// The work that each stream has waited for, compute first.
  std::array<Clock, kNumStreams> clocks{};
  llvm::DenseMap<mlir::Operation *, Async> asyncs;
  /// The loads of shards that were updated on the host, and the number of
  /// gradients that were stored for that.
  llvm::SmallVector<mlir::Operation *> hostLoads;
  size_t numHostStores = 0;
  /// Operations on streams other than compute, in order of issue.
  llvm::SmallVector<mlir::Operation *> asyncOrder;
  llvm::DenseMap<mlir::Value, Buffer> buffers;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> buffersOf;
  /// Values that were issued for the last time, with asynchronous accesses not
  /// known to be done.
  llvm::SmallVector<mlir::Value> pending;
  /// The last store that was the last access to its value, and the last such
  /// store after which compute has computed.
  mlir::Operation *lastStore = nullptr, *olderStore = nullptr;
  /// The last operation of this function, on another stream than compute, that
  /// writes to each state, and the operations that read the state since.
  llvm::DenseMap<mlir::StringAttr, mlir::Operation *> writers;
  llvm::DenseMap<mlir::StringAttr, llvm::SmallVector<mlir::Operation *>>
      readers;
  llvm::MapVector<mlir::StringAttr, Async> liveIns;
  /// Live-in accumulates that compute has waited for.
  llvm::DenseSet<mlir::StringAttr> awaited;
  /// The operations that may be in flight at the end: their results, and the
  /// values that feed only them.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> liveOuts;
  /// The operations that define these values, with the operation that they are
  /// for.
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> liveOutFor;
};

} // namespace fcdp
