// SPDX-License-Identifier: Apache-2.0
//
// The facts of reports on steps of several shapes, on evaluations, and on the
// updates that only some steps make.
#pragma once

#include "fcdp/Analysis/Traffic.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Planning/Memory/DeviceMemory.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// One variant of a step of several shapes.
struct VariantFacts {
  /// The inputs whose shapes differ: "ids [4, 512], labels [4, 512]".
  std::string inputs;
  /// Bytes of one node per optimizer step.
  LinkBytes step;
  /// Device memory of one rank that the functions of this variant, and the
  /// functions that all variants share, need.
  int64_t deviceBytes = 0;
};

/// The bytes and the memory that the functions of the family need besides those
/// of one step.
struct FamilyFacts {
  /// From the smallest to the greatest; empty if the step has one shape.
  std::vector<VariantFacts> variants;
  /// Bytes for the first batch of an evaluation, and for each later one; none
  /// if the job evaluates nothing.
  struct EvaluationBytes {
    LinkBytes first, next;
  };
  std::optional<EvaluationBytes> evaluation;
  /// The synchronization of nodes by outer steps; none if every step
  /// synchronizes nodes.
  struct OuterFacts {
    int64_t every = 1, fragments = 1;
    /// Bytes of one node for the outer updates of all fragments together.
    LinkBytes updates;
    /// Bytes that a node sends to others per step on average, and the same if
    /// each step gathered parameters and reduced gradients once.
    uint64_t perStep = 0, exactPerStep = 0;
  };
  std::optional<OuterFacts> outer;
};

/// Measures a module in phase planned that needs the device memory `device`.
/// `step` has the bytes of one node per step, of the greatest variant.
FamilyFacts measureFamily(mlir::ModuleOp module, const DeviceMemory &device,
                          const LinkBytes &step);

/// Seconds of a step of each variant, from the smallest to the greatest; empty
/// if the step has one shape.
struct FamilyTimes {
  std::vector<double> variantSeconds;
};

/// Simulates the smaller variants. `seconds` is the time of the greatest one.
FamilyTimes timeFamily(mlir::ModuleOp module, const Cluster &cluster,
                       double seconds);

/// Prints `outer steps 1536 bytes between nodes in 32 steps: 48 bytes a step,
/// 1.56 % of the 3072 of exact training`, or nothing without outer steps.
void printSomeSteps(const FamilyFacts &facts, llvm::raw_ostream &stream);

/// Prints a line for each variant and for the evaluation's batches.
void printOtherFunctions(const FamilyFacts &facts, llvm::raw_ostream &stream);

/// Prints `            outer steps take 0.02 s of it`, or nothing if `seconds`
/// is 0.
void printSomeStepsTime(double seconds, llvm::raw_ostream &stream);

/// Prints `            variant 0 takes 0.12 s` for each variant.
void printFamilyTimes(const FamilyTimes &times, llvm::raw_ostream &stream);

/// Writes the settings of outer steps, which take `seconds` per step on
/// average, as an object's attributes.
void writeSomeSteps(llvm::json::OStream &json, const FamilyFacts &facts,
                    double seconds);

/// Writes the bytes of outer steps and evaluations as an object's attributes.
void writeBytes(llvm::json::OStream &json, const FamilyFacts &facts);

/// Writes the attribute `variants`; nothing for a step of one shape.
void writeShapes(llvm::json::OStream &json, const FamilyFacts &facts,
                 const FamilyTimes &times);

} // namespace fcdp
