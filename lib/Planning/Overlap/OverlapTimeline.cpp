// SPDX-License-Identifier: Apache-2.0

#include "OverlapTimeline.h"

#include "dialects/Fcdp/Enums.h"

#include <algorithm>

using namespace fcdp;

namespace {
/// The part of the problem that an instruction belongs to.
struct Purpose {
  enum Kind { piece, fetch, reduction, none } kind = none;
  size_t index = 0, stage = 0;
};

/// Issues the instructions of a solution, in order.
class FunctionBuilder {
public:
  FunctionBuilder(const OverlapProblem &problem, llvm::ArrayRef<size_t> fetched,
                  llvm::ArrayRef<size_t> accumulated)
      : problem(problem), fetched(fetched), accumulated(accumulated),
        sums(problem.pieces.size() + 1) {
    for (size_t i = 0; i < accumulated.size(); ++i)
      sums[accumulated[i]].push_back(i);
  }
  void build();

  InstructionList list;
  /// The purpose of each instruction.
  std::vector<Purpose> purposes;

private:
  void work(uint8_t stream, Activity activity, const Cost &cost,
            Purpose purpose);
  uint32_t record(uint8_t stream);
  void wait(uint8_t stream, uint32_t event);
  uint32_t transfer(llvm::ArrayRef<OverlapProblem::Stage> stages,
                    Purpose purpose);
  void beginPiece(size_t piece);
  void accumulate(size_t place);

  const OverlapProblem &problem;
  llvm::ArrayRef<size_t> fetched, accumulated;
  /// The events that mark the end of each transfer.
  std::vector<uint32_t> fetchDone, reductionDone;
  /// The reductions that are accumulated at each place.
  std::vector<llvm::SmallVector<size_t, 2>> sums;
  size_t nextFetch = 0, nextUse = 0, nextReduction = 0;
  uint32_t nextEvent = 0;
};
} // namespace

void FunctionBuilder::work(uint8_t stream, Activity activity, const Cost &cost,
                           Purpose purpose) {
  list.push_back(Instruction::makeWork(stream, activity, cost));
  purposes.push_back(purpose);
}

uint32_t FunctionBuilder::record(uint8_t stream) {
  list.push_back(Instruction::makeRecord(stream, nextEvent));
  purposes.emplace_back();
  return nextEvent++;
}

void FunctionBuilder::wait(uint8_t stream, uint32_t event) {
  list.push_back(Instruction::makeWait(stream, event));
  purposes.emplace_back();
}

/// Issues a transfer, and returns the event that marks its end.
uint32_t FunctionBuilder::transfer(llvm::ArrayRef<OverlapProblem::Stage> stages,
                                   Purpose purpose) {
  uint32_t before = record(kComputeStream);
  for (const OverlapProblem::Stage &stage : stages) {
    wait(stage.stream, before);
    work(stage.stream, stage.activity, stage.cost, purpose);
    ++purpose.stage;
    if (!stage.isAside)
      before = record(stage.stream);
  }
  return before;
}

void FunctionBuilder::accumulate(size_t place) {
  for (size_t reduction : sums[place])
    wait(kComputeStream, reductionDone[reduction]);
}

void FunctionBuilder::beginPiece(size_t piece) {
  accumulate(piece);
  for (; nextFetch < fetched.size() && fetched[nextFetch] <= piece; ++nextFetch)
    fetchDone.push_back(transfer(problem.fetches[nextFetch].stages,
                                 {Purpose::fetch, nextFetch}));
  for (; nextUse < fetched.size() && problem.fetches[nextUse].needed <= piece;
       ++nextUse)
    wait(kComputeStream, fetchDone[nextUse]);
}

void FunctionBuilder::build() {
  for (size_t piece = 0; piece < problem.pieces.size(); ++piece) {
    beginPiece(piece);
    work(kComputeStream, Activity::compute,
         {Resource::compute, 0, problem.pieces[piece].seconds,
          problem.pieces[piece].deviceMemory},
         {Purpose::piece, piece});
    for (; nextReduction < accumulated.size() &&
           problem.reductions[nextReduction].issued <= piece;
         ++nextReduction)
      reductionDone.push_back(transfer(problem.reductions[nextReduction].stages,
                                       {Purpose::reduction, nextReduction}));
  }
  accumulate(problem.pieces.size());
}

OverlapTimeline fcdp::simulateOverlap(const OverlapProblem &problem,
                                      llvm::ArrayRef<size_t> fetched,
                                      llvm::ArrayRef<size_t> accumulated) {
  FunctionBuilder builder(problem, fetched, accumulated);
  builder.build();
  std::vector<TimedWork> trace;
  OverlapTimeline timeline;
  timeline.seconds = simulate(&builder.list, &trace).seconds;
  timeline.pieces.resize(problem.pieces.size());
  timeline.reductions.resize(problem.reductions.size());
  for (const OverlapProblem::Fetch &fetch : problem.fetches)
    timeline.fetches.emplace_back(fetch.stages.size());
  for (const TimedWork &timed : trace) {
    const Purpose &purpose = builder.purposes[timed.instruction];
    if (purpose.kind == Purpose::piece)
      timeline.pieces[purpose.index] = timed.begin;
    else if (purpose.kind == Purpose::fetch)
      timeline.fetches[purpose.index][purpose.stage] = timed.end - timed.begin;
    else
      timeline.reductions[purpose.index] =
          std::max(timeline.reductions[purpose.index], timed.end);
  }
  return timeline;
}

std::vector<int64_t> fcdp::sumBytes(const OverlapProblem &problem,
                                    llvm::ArrayRef<size_t> fetched,
                                    llvm::ArrayRef<size_t> accumulated) {
  size_t count = problem.pieces.size();
  std::vector<int64_t> change(count + 1);
  for (auto [issued, fetch] : llvm::zip_equal(fetched, problem.fetches)) {
    change[issued] += fetch.bytes;
    change[fetch.until + 1] -= fetch.bytes;
  }
  for (auto [place, reduction] :
       llvm::zip_equal(accumulated, problem.reductions)) {
    change[reduction.issued] += reduction.bytes;
    change[place] -= reduction.bytes;
  }
  std::vector<int64_t> bytes;
  int64_t inUse = 0;
  for (size_t i = 0; i < count; ++i) {
    inUse += change[i];
    bytes.push_back(inUse + problem.pieces[i].bytes);
  }
  return bytes;
}

OverlapEstimate fcdp::estimate(const OverlapProblem &problem,
                               llvm::ArrayRef<size_t> fetched,
                               llvm::ArrayRef<size_t> accumulated) {
  OverlapEstimate estimate;
  estimate.seconds = simulateOverlap(problem, fetched, accumulated).seconds;
  for (int64_t bytes : sumBytes(problem, fetched, accumulated))
    estimate.deviceBytes = std::max(estimate.deviceBytes, bytes);
  return estimate;
}
