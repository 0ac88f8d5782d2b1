// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Loss/LossMemory.h"

#include "fcdp/Planning/Memory/Activations.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>

using namespace mlir;
using namespace fcdp;

void fcdp::measureLossPeaks(LossProblem &problem, func::FuncOp function,
                            ArrayRef<Operation *> replaced, Operation *loss,
                            int64_t results) {
  llvm::DenseSet<Operation *> gone(replaced.begin(), replaced.end());
  std::vector<int64_t> all(llvm::range_size(function.front()) + 1),
      others(all.size());
  for (const Activation &activation : findActivations(function)) {
    auto add = [&](std::vector<int64_t> &bytes) {
      bytes[activation.begin] += activation.bytes;
      bytes[activation.end] -= activation.bytes;
    };
    add(all);
    if (!gone.contains(activation.op))
      add(others);
  }
  int64_t inUse = 0, besides = 0, position = 0;
  for (Operation &op : function.front()) {
    inUse += all[position];
    besides += others[position++];
    problem.wholePeak = std::max(problem.wholePeak, inUse);
    problem.otherPeak = std::max(problem.otherPeak, besides);
    if (&op == loss)
      problem.atLoss = besides + results;
  }
}

void fcdp::measureRecomputedPeaks(LossProblem &problem, func::FuncOp whole,
                                  Operation *loss, int64_t workspace) {
  problem.wholePeak = problem.otherPeak = 0;
  auto function = loss->getParentOfType<func::FuncOp>();
  for (auto [op, inUse] :
       llvm::zip_equal(function.front(), measureActivations(function))) {
    int64_t besides = &op == loss ? inUse - workspace : inUse;
    problem.otherPeak = std::max(problem.otherPeak, besides);
    if (&op == loss)
      problem.atLoss = besides;
  }
  for (int64_t inUse : measureActivations(whole))
    problem.wholePeak = std::max(problem.wholePeak, inUse);
  // Under a bound, less may be recomputed where no logits are kept.
  problem.wholePeak = std::max(problem.wholePeak, problem.otherPeak);
}
