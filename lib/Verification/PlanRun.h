// SPDX-License-Identifier: Apache-2.0
//
// Executes functions of a plan on the memory of one rank, with abstract
// contents instead of bytes. All ranks run one program, so a result for one
// rank holds for all.
#pragma once

#include "Contents.h"
#include "PlanModel.h"

namespace fcdp {

/// Bits of `Content::axes`.
inline constexpr uint8_t kNodeBit = 1 << static_cast<unsigned>(Axis::node);
inline constexpr uint8_t kLocalBit = 1 << static_cast<unsigned>(Axis::local);

/// The state of a legal run between two functions.
struct RunState {
  StreamClocks clocks;
  ArenaArray<AccessMap> arenas;
  /// By bucket, the number of updates so far, and the last of them.
  std::vector<int32_t> versions;
  std::vector<OpIndex> updates;
  /// The number of micro-batches so far, and the first one of this step.
  int32_t batch = 0, firstBatch = 0;
  /// The first operation of this step.
  OpIndex firstIndex = 0;
  /// The number of the last step in the family (FamilyMember::getStep); -1
  /// before the first one.
  int64_t step = -1;
  /// By state, its last written content. It is the only record for states
  /// without bytes.
  std::vector<int32_t> emptyContents;
};

/// An operation that was issued, over all runs that were tried.
struct Issued {
  const FunctionModel *function;
  const PlanInstruction *instruction;
};

/// Returns the bytes of elements of a state from `begin` on.
Extent getPieceExtent(const StateModel &state, int64_t begin, int64_t elements);

class PlanRun {
public:
  explicit PlanRun(const PlanModel &plan);

  RunState begin();
  /// Runs `function` on `state`. Returns failure, with an error, at the first
  /// violation.
  mlir::LogicalResult run(const FunctionModel &function, RunState &state);

  const Content &getContent(int32_t id) const { return contents[id]; }
  /// Returns the content of a state after the last run, or 0 if its bytes do
  /// not all have one valid content.
  int32_t findContent(int32_t state);

private:
  enum class Mode { read, write };

  void enter(const FunctionModel &function);
  mlir::LogicalResult leave();
  /// Returns whether `bucket` must be updated when the current function ends.
  bool isUpdatedHere(BucketOp bucket) const;
  /// Returns whether the current function is a micro-batch that has updated
  /// `bucket`.
  bool isReplaced(int32_t bucket) const;
  /// Returns what messages call the update of `bucket` in a micro-batch.
  llvm::StringRef nameUpdate(int32_t bucket) const;
  mlir::LogicalResult issue(const PlanInstruction &instruction);
  mlir::LogicalResult issueOn(const PlanInstruction &instruction);
  mlir::LogicalResult writeFreeRanges(const PlanInstruction &instruction);

  mlir::LogicalResult gather(const PlanInstruction &instruction);
  mlir::LogicalResult checkReference(const PlanInstruction &instruction);
  mlir::LogicalResult writeScratch(BufferAttr scratch,
                                   llvm::ArrayRef<Extent> others);
  mlir::LogicalResult addGathered(uint8_t &gathered, mlir::ArrayAttr axes,
                                  const Content &content);
  mlir::LogicalResult checkReduced(const Content &content, int32_t bucket);
  mlir::LogicalResult checkDifference(const Content &content, int32_t bucket,
                                      uint8_t reduced, uint8_t gathered);
  mlir::LogicalResult reduce(const PlanInstruction &instruction);
  mlir::LogicalResult updateReference(const PlanInstruction &instruction);
  mlir::LogicalResult cast(const PlanInstruction &instruction);
  mlir::LogicalResult compute(const PlanInstruction &instruction);
  mlir::LogicalResult pack(const PlanInstruction &instruction);
  mlir::LogicalResult checkInPlace(const PlanInstruction &instruction);
  mlir::LogicalResult accumulate(const PlanInstruction &instruction);
  mlir::LogicalResult add(const PlanInstruction &instruction);
  mlir::LogicalResult store(const PlanInstruction &instruction);
  mlir::LogicalResult load(const PlanInstruction &instruction);
  mlir::LogicalResult storeValue(StoreValueOp store);
  mlir::LogicalResult dropValue(DropValueOp drop);
  mlir::LogicalResult loadValue(const PlanInstruction &instruction);
  /// Reads host memory, and checks that it has what `writer` has stored there,
  /// completely. `what` is for errors: "a value".
  mlir::LogicalResult readStored(const Extent &extent, mlir::Operation *writer,
                                 llvm::StringRef what);
  Extent getHostExtent(StoreValueOp store) const;
  void fillState(const PlanInstruction &instruction);
  mlir::LogicalResult viewMember(const PlanInstruction &instruction);
  mlir::LogicalResult update(const PlanInstruction &instruction);
  mlir::LogicalResult loadPiece(const PlanInstruction &instruction);
  mlir::LogicalResult storePiece(const PlanInstruction &instruction);
  mlir::LogicalResult checkBlocks(const StateModel &state, Extent extent);
  mlir::LogicalResult updatePiece(const PlanInstruction &instruction);
  mlir::LogicalResult checkPiece(Root window, int32_t state, int64_t begin,
                                 int64_t elements, int32_t version);
  mlir::LogicalResult storeGradient(const PlanInstruction &instruction);
  mlir::LogicalResult updateOnHost(const PlanInstruction &instruction);
  mlir::LogicalResult loadShard(const PlanInstruction &instruction);
  /// Does that for the memory of `store`, which `last` has written.
  mlir::LogicalResult readWindow(StoreGradientOp store, mlir::Operation *last);
  /// Checks that all bytes of a piece of a state have the content that the last
  /// update has left.
  mlir::LogicalResult checkOld(int32_t state, const Extent &piece);
  mlir::LogicalResult subtract(const PlanInstruction &instruction);
  mlir::LogicalResult synchronize(const PlanInstruction &instruction);
  /// Handles an operation that changes all gradients in place.
  mlir::LogicalResult rescaleAll();
  mlir::LogicalResult wait(const PlanInstruction &instruction);
  mlir::LogicalResult release(const PlanInstruction &instruction);

  /// Records an access. Returns failure if it is not ordered after all accesses
  /// that it conflicts with.
  mlir::LogicalResult access(Arena arena, const Extent &extent, Mode mode,
                             int32_t content = 0);
  /// Reads the memory that a value refers to and returns its content.
  mlir::FailureOr<int32_t> readRoot(Root root);
  /// Reads the single operand of the instruction.
  mlir::FailureOr<int32_t> readOnly(const PlanInstruction &instruction);
  mlir::FailureOr<int32_t> readState(int32_t state);
  mlir::LogicalResult writeState(int32_t state, Content content);
  mlir::LogicalResult writeResult(const PlanInstruction &instruction,
                                  Content content);
  /// Returns whether the state may have this content.
  bool isFor(int32_t state, const Content &content) const;
  /// Checks that the bytes still have the content that was written for the
  /// value.
  mlir::LogicalResult checkContent(const BufferModel &buffer, int32_t content);
  mlir::LogicalResult checkFresh(const Content &content);
  mlir::LogicalResult checkWeights(const Content &content, int32_t bucket);
  mlir::LogicalResult checkSum(const Content &content, int32_t bucket);
  /// Checks that `content` includes all gradients of the step exactly once.
  mlir::LogicalResult checkComplete(const Content &content, int32_t bucket);
  /// Checks content that is copied to or from host memory against the role of
  /// the state.
  mlir::LogicalResult checkCopied(const Content &content,
                                  const PlanInstruction &instruction);
  /// Returns `sum` plus `value`. Errors call the accumulator `what`.
  mlir::FailureOr<Content> add(const Content &sum, const Content &value,
                               const llvm::Twine &what);

  static Arena getArena(const StateModel &state) {
    return StateOp(state.op).getArena();
  }
  AccessMap &getMap(const StateModel &state) {
    return now->arenas[getArena(state)];
  }
  AccessMap &getDevice() { return now->arenas[Arena::device]; }
  const Extent &getExtent(Root root) const {
    return root.state >= 0 ? plan.states[root.state].extent
                           : function->buffers[root.buffer].extent;
  }
  int32_t addContent(Content content);
  /// Returns the axes with more than one rank, as bits.
  uint8_t getAxes() const;
  uint8_t getOwnAxes(int32_t bucket) const;
  /// Returns the axes over which a step reduces gradients of the bucket.
  uint8_t getReducedAxes(int32_t bucket) const;
  uint8_t getBit(mlir::ArrayAttr axes) const;
  bool isFirstBatch() const { return now->batch == now->firstBatch; }

  /// Start an error at the current operation, and attach a note at another one.
  mlir::InFlightDiagnostic emitError();
  void attachNote(mlir::InFlightDiagnostic &diag, OpIndex index,
                  const llvm::Twine &what);
  void attachWriter(mlir::InFlightDiagnostic &diag, const Content &content,
                    const llvm::Twine &what);

  const PlanModel &plan;
  /// The issued operations by index; index 0 is none.
  std::vector<Issued> issued;
  std::vector<Content> contents;

  // State of the current function.
  const FunctionModel *function = nullptr;
  RunState *now = nullptr;
  const PlanInstruction *current = nullptr;
  OpIndex firstIndex = 0;
  /// By buffer, the content of its value, the last access on each stream, and
  /// its release.
  std::vector<int32_t> contentOf;
  std::vector<Clock> accesses;
  std::vector<OpIndex> released;
  /// Gradients that calls have written in place, by the pack's buffer.
  struct InPlace {
    Extent place;
    int32_t content;
  };
  llvm::DenseMap<int32_t, llvm::SmallVector<InPlace>> inPlace;
  /// The calls whose results are stored, the operations that store them, and
  /// the content of host memory that these have written.
  llvm::DenseMap<mlir::Operation *, OpIndex> madeAt, storedAt;
  llvm::DenseMap<mlir::Operation *, int32_t> storedAs;
  /// By bucket that is updated in pieces, the elements that are updated and the
  /// new content of its shard.
  struct Updating {
    int64_t end = 0;
    int32_t content = 0;
  };
  llvm::DenseMap<int32_t, Updating> updating;
  /// By bucket that is updated on the host, the elements of its shard that are
  /// loaded.
  llvm::DenseMap<int32_t, int64_t> loaded;
  /// By state, the content that pieces are stored as.
  llvm::DenseMap<int32_t, int32_t> storing;
};

} // namespace fcdp
