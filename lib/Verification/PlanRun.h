// SPDX-License-Identifier: Apache-2.0
//
// Runs functions of a plan on the memory of one rank, with contents for bytes.
// All ranks run one program, so what holds for one holds for all.
#pragma once

#include "Contents.h"
#include "PlanModel.h"

namespace fcdp {

/// Of `Content::axes`.
inline constexpr uint8_t kNodeBit = 1 << static_cast<unsigned>(Axis::node);
inline constexpr uint8_t kLocalBit = 1 << static_cast<unsigned>(Axis::local);

/// Where a legal run stands between two functions.
struct RunState {
  StreamClocks clocks;
  AccessMap device, host;
  /// By bucket: how many updates it has seen, and the last of them.
  std::vector<int32_t> versions;
  std::vector<OpIndex> updates;
  /// Micro-batches so far, and the first one of this step.
  int32_t batch = 0, firstBatch = 0;
  /// By state: what one without bytes holds.
  std::vector<int32_t> emptyContents;
};

/// What was issued, over all runs that were tried.
struct Issued {
  const FunctionModel *function;
  const PlanInstruction *instruction;
};

class PlanRun {
public:
  explicit PlanRun(const PlanModel &plan);

  RunState begin();
  /// Runs `function` on `state`; fails with an error on the first fault.
  mlir::LogicalResult run(const FunctionModel &function, RunState &state);

  const Content &getContent(int32_t id) const { return contents[id]; }

private:
  enum class Mode { read, write };

  void enter(const FunctionModel &function);
  mlir::LogicalResult leave();
  mlir::LogicalResult issue(const PlanInstruction &instruction);
  mlir::LogicalResult issueOn(const PlanInstruction &instruction);
  mlir::LogicalResult writeFree(const PlanInstruction &instruction);

  mlir::LogicalResult gather(const PlanInstruction &instruction);
  mlir::LogicalResult addGathered(uint8_t &gathered, mlir::ArrayAttr axes,
                                  const Content &content);
  mlir::LogicalResult checkReduced(const Content &content, int32_t bucket);
  mlir::LogicalResult reduce(const PlanInstruction &instruction);
  mlir::LogicalResult cast(const PlanInstruction &instruction);
  mlir::LogicalResult compute(const PlanInstruction &instruction);
  mlir::LogicalResult pack(const PlanInstruction &instruction);
  mlir::LogicalResult checkInPlace(const PlanInstruction &instruction);
  mlir::LogicalResult accumulate(const PlanInstruction &instruction);
  mlir::LogicalResult add(const PlanInstruction &instruction);
  mlir::LogicalResult store(const PlanInstruction &instruction);
  mlir::LogicalResult load(const PlanInstruction &instruction);
  void fillState(const PlanInstruction &instruction);
  mlir::LogicalResult viewMember(const PlanInstruction &instruction);
  mlir::LogicalResult update(const PlanInstruction &instruction);
  mlir::LogicalResult clip(const PlanInstruction &instruction);
  mlir::LogicalResult wait(const PlanInstruction &instruction);
  mlir::LogicalResult release(const PlanInstruction &instruction);

  /// Notes an access, which must be ordered after all that it depends on.
  mlir::LogicalResult access(AccessMap &map, const Extent &extent, Mode mode,
                             int32_t content = 0);
  /// Reads what a value shows; gives the content.
  mlir::FailureOr<int32_t> readRoot(Root root);
  /// Reads the one thing that the instruction reads.
  mlir::FailureOr<int32_t> readOnly(const PlanInstruction &instruction);
  mlir::FailureOr<int32_t> readState(int32_t state);
  mlir::LogicalResult writeState(int32_t state, Content content);
  mlir::LogicalResult writeResult(const PlanInstruction &instruction,
                                  Content content);
  /// Whether a state may hold `content`.
  bool isFor(int32_t state, const Content &content) const;
  /// What a state holds, or 0 if that is not one thing that it may hold.
  int32_t findContent(int32_t state);
  /// Fails unless the bytes hold what was written for the value.
  mlir::LogicalResult checkHeld(const BufferModel &buffer, int32_t content);
  mlir::LogicalResult checkFresh(const Content &content);
  mlir::LogicalResult checkWeights(const Content &content, int32_t bucket);
  mlir::LogicalResult checkSum(const Content &content, int32_t bucket);
  /// Fails unless all gradients of the step are in `content`, once.
  mlir::LogicalResult checkComplete(const Content &content, int32_t bucket);
  /// Of what the state of a copy in host memory is for.
  mlir::LogicalResult checkCopied(const Content &content,
                                  const PlanInstruction &instruction);
  /// `what` names the sum in errors.
  mlir::FailureOr<Content> add(const Content &sum, const Content &value,
                               const llvm::Twine &what);

  AccessMap &getArena(const StateModel &state) {
    return StateOp(state.op).getArena() == Arena::host ? now->host
                                                       : now->device;
  }
  const Extent &getExtent(Root root) const {
    return root.state >= 0 ? plan.states[root.state].extent
                           : function->buffers[root.buffer].extent;
  }
  int32_t addContent(Content content);
  /// Axes of more than one rank, as bits.
  uint8_t getAxes() const;
  uint8_t getOwnAxes(int32_t bucket) const;
  uint8_t getBit(mlir::ArrayAttr axes) const;
  bool isFirstBatch() const { return now->batch == now->firstBatch; }

  /// An error at the current operation, and a note at another one.
  mlir::InFlightDiagnostic emitError();
  void attachNote(mlir::InFlightDiagnostic &diag, OpIndex index,
                  const llvm::Twine &what);
  void attachWriter(mlir::InFlightDiagnostic &diag, const Content &content,
                    const llvm::Twine &what);

  const PlanModel &plan;
  /// By index; 0 is nothing.
  std::vector<Issued> issued;
  std::vector<Content> contents;

  // Of the current function.
  const FunctionModel *function = nullptr;
  RunState *now = nullptr;
  const PlanInstruction *current = nullptr;
  OpIndex firstIndex = 0;
  /// By buffer: what its value holds, who accessed the value last on each
  /// stream, and who released it.
  std::vector<int32_t> held;
  std::vector<Clock> accesses;
  std::vector<OpIndex> released;
  /// What calls have written in place, by the pack's buffer.
  struct InPlace {
    Extent place;
    int32_t content;
  };
  llvm::DenseMap<int32_t, llvm::SmallVector<InPlace>> inPlace;
};

} // namespace fcdp
