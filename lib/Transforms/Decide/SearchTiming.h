// SPDX-License-Identifier: Apache-2.0
//
// Shows the stages of a search as analyses of the pass, in --mlir-timing and to
// other instrumentations.
#pragma once

#include "mlir/Pass/AnalysisManager.h"
#include "mlir/Pass/PassInstrumentation.h"

namespace fcdp {

/// The stages of the search of strategy `auto`.
struct ResidencySearch {
  static constexpr llvm::StringLiteral name = "search of residencies";
};
struct CandidateSchedule {
  static constexpr llvm::StringLiteral name = "schedule of candidates";
};
struct CandidateSimulation {
  static constexpr llvm::StringLiteral name = "simulation of candidates";
};
struct CandidateMemory {
  static constexpr llvm::StringLiteral name = "memory of candidates";
};

class SearchTiming {
public:
  SearchTiming(const mlir::AnalysisManager &analyses, mlir::Operation *op)
      : instrumentor(analyses.getPassInstrumentor()), op(op) {}

  /// Runs one `Stage`, which is `run`, and returns its result.
  template <typename Stage, typename Run>
  auto measure(Run run) const {
    auto id = mlir::TypeID::get<Stage>();
    if (instrumentor)
      instrumentor->runBeforeAnalysis(Stage::name, id, op);
    auto result = run();
    if (instrumentor)
      instrumentor->runAfterAnalysis(Stage::name, id, op);
    return result;
  }

private:
  mlir::PassInstrumentor *instrumentor;
  mlir::Operation *op;
};

} // namespace fcdp
