// SPDX-License-Identifier: Apache-2.0
//
// Planned steps in which everything of the dialect occurs.
#pragma once

#include "fcdp/Transforms/PipelineOptions.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/StringRef.h"
#include "gtest/gtest.h"

#include <string>
#include <vector>

namespace fcdp {

/// Returns the operations of the dialect. MLIR's
/// getRegisteredOperationsByDialect finds none if a dialect depends on others.
inline std::vector<mlir::RegisteredOperationName>
getFcdpOperations(mlir::MLIRContext &context) {
  std::vector<mlir::RegisteredOperationName> names;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations())
    if (name.getDialectNamespace() == "fcdp")
      names.push_back(name);
  EXPECT_FALSE(names.empty());
  return names;
}

/// Two units with a cast between parameter and use, a parameter in a narrow
/// type, and a buffer that the step writes.
inline constexpr const char *kCoveringStep = R"(
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.parameter @a : tensor<64x64xf32> unit "a" trainable names ["a"]
  fcdp.parameter @b : tensor<64x64xf32> unit "b" trainable names ["b"]
  fcdp.parameter @c : tensor<64xbf16> unit "b" trainable names ["c"]
  fcdp.input @x : tensor<64x64xbf16> name "x"
  fcdp.buffer @mean : tensor<64x64xbf16> name "mean" persistent mutable
  func.func @step() {
    %a = fcdp.read_parameter @a : tensor<64x64xf32>
    %b = fcdp.read_parameter @b : tensor<64x64xf32>
    %c = fcdp.read_parameter @c : tensor<64xbf16>
    %x = fcdp.read_input @x : tensor<64x64xbf16>
    %mean = fcdp.read_buffer @mean : tensor<64x64xbf16>
    %0 = aten.call "aten._to_copy.default"(self = %a, dtype = bf16) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %1 = aten.call "aten.mm.default"(self = %x, mat2 = %0) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %2 = aten.call "aten._to_copy.default"(self = %b, dtype = bf16) : (tensor<64x64xf32>) -> tensor<64x64xbf16>
    %3 = aten.call "aten.mm.default"(self = %1, mat2 = %2) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %4 = aten.call "aten.mul.Tensor"(self = %3, other = %mean) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    fcdp.write_buffer %4 to @mean : tensor<64x64xbf16>
    %11 = aten.call "aten.mul.Tensor"(self = %4, other = %c) : (tensor<64x64xbf16>, tensor<64xbf16>) -> tensor<64x64xbf16>
    %5 = aten.call "aten.sum.default"(self = %11) : (tensor<64x64xbf16>) -> tensor<bf16>
    fcdp.loss %5 : tensor<bf16>
    %6 = aten.call "aten.mm.default"(self = %1, mat2 = %4) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %7 = aten.call "aten._to_copy.default"(self = %6, dtype = f32) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    fcdp.gradient %7 of @b : tensor<64x64xf32>
    %8 = aten.call "aten.mm.default"(self = %4, mat2 = %2) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %9 = aten.call "aten.mm.default"(self = %x, mat2 = %8) : (tensor<64x64xbf16>, tensor<64x64xbf16>) -> tensor<64x64xbf16>
    %10 = aten.call "aten._to_copy.default"(self = %9, dtype = f32) : (tensor<64x64xbf16>) -> tensor<64x64xf32>
    fcdp.gradient %10 of @a : tensor<64x64xf32>
    %12 = aten.call "aten.sum.dim_IntList"(self = %4, dim = [0]) : (tensor<64x64xbf16>) -> tensor<64xbf16>
    %13 = aten.call "aten.ones_like.default"(self = %5) : (tensor<bf16>) -> tensor<bf16>
    %14 = aten.call "aten.mul.Tensor"(self = %12, other = %13) : (tensor<64xbf16>, tensor<bf16>) -> tensor<64xbf16>
    fcdp.gradient %14 of @c : tensor<64xbf16>
    return
  }
})";

inline PipelineOptions makeOptions(llvm::StringRef strategy,
                                   llvm::StringRef accumulate,
                                   llvm::StringRef optimizer,
                                   llvm::StringRef master = "model",
                                   llvm::StringRef reduceType = "model",
                                   llvm::StringRef lossScale = "off",
                                   llvm::StringRef lossWeight = "") {
  PipelineOptions options;
  options.nodes = 2;
  options.ranksPerNode = 2;
  options.microBatches = 3;
  options.clipNorm = 1;
  options.strategy = strategy;
  options.accumulate = accumulate;
  options.optimizer = optimizer;
  options.master = master;
  options.reduceType = reduceType;
  options.lossScale = lossScale;
  options.lossWeight = lossWeight;
  return options;
}

inline PipelineOptions withActivations(PipelineOptions options) {
  options.activations = "host";
  return options;
}

inline PipelineOptions withStates(PipelineOptions options,
                                  llvm::StringRef states) {
  options.states = states.str();
  return options;
}

inline PipelineOptions withUpdate(PipelineOptions options,
                                  llvm::StringRef update) {
  options.update = update.str();
  return options;
}

inline PipelineOptions withReduceWire(PipelineOptions options,
                                      llvm::StringRef wire) {
  options.reduceWire = wire.str();
  return options;
}

inline PipelineOptions withWire(PipelineOptions options, llvm::StringRef wire) {
  options.wire = wire.str();
  return options;
}

inline PipelineOptions withOuter(PipelineOptions options,
                                 llvm::StringRef outer) {
  options.outer = outer.str();
  return options;
}

inline PipelineOptions withFuse(PipelineOptions options) {
  options.fuse = "exact";
  return options;
}

/// Steps in which everything of the dialect occurs.
inline std::vector<PipelineOptions> makeCoveringRuns() {
  return {
      withReduceWire(makeOptions("zero2", "sharded", "adamw"), "int8"),
      withOuter(makeOptions("hsdp", "full", "adamw"), "4,fragments=2"),
      withWire(makeOptions("fcdp", "node_host", "adamw"), "delta"),
      makeOptions("hpz", "node", "sgd,lr=0.1,momentum=0.9"),
      withActivations(makeOptions("zero3", "full", "adamw")),
      withUpdate(withStates(makeOptions("zero3", "sharded", "adamw"), "host"),
                 "host"),
      makeOptions("zero3", "sharded", "muon"),
      makeOptions("zero3", "sharded", "adamw8bit"),
      makeOptions("zero3", "sharded", "adafactor"),
      withFuse(makeOptions("zero3", "sharded", "soap")),
      withStates(makeOptions("zero3", "sharded", "lion"), "host"),
      makeOptions("zero2", "sharded", "adamw", "f32", "f16", "on", "x")};
}

/// The step; with kernels, with operators that one computes; with outer steps,
/// without the write of a buffer, which they refuse; with activations in host
/// memory, with a choice of one, because all are small.
inline std::string getCoveringStep(const PipelineOptions &options) {
  std::string text = kCoveringStep;
  if (llvm::StringRef sum = "%5 = aten.call \"aten.sum.default\"(self = %11)";
      options.fuse == "exact")
    text.replace(text.find(sum), sum.size(),
                 "%n = aten.call \"aten.neg.default\"(self = %11) : "
                 "(tensor<64x64xbf16>) -> tensor<64x64xbf16>\n"
                 "%5 = aten.call \"aten.sum.default\"(self = %n)");
  if (llvm::StringRef call = "(self = %x, mat2 = %0)";
      options.activations == "host")
    text.insert(text.find(call) + call.size(),
                " {fcdp.on_host = array<i64: 0>}");
  if (options.outer.empty())
    return text;
  for (llvm::StringRef part : {" mutable", "fcdp.write_buffer %4 to @mean : "
                                           "tensor<64x64xbf16>"})
    if (size_t at = text.find(part); at != std::string::npos)
      text.erase(at, part.size());
  return text;
}

} // namespace fcdp
