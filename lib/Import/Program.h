// SPDX-License-Identifier: Apache-2.0
//
// The model of an archive (models/NAME.json): the step's graph and its
// signature, in the archive's terms.
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Support/Json.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace fcdp::pt2 {

struct InputSpec {
  enum class Kind { Parameter, Buffer, TensorConstant, UserInput };
  Kind kind;
  /// Name in the graph.
  llvm::StringRef value;
  /// Name in PyTorch. For a user input it is the name in the graph.
  llvm::StringRef name;
  /// For a buffer, whether it is part of the state dict.
  bool persistent = false;
};

struct OutputSpec {
  enum class Kind { Loss, Gradient, BufferMutation };
  Kind kind;
  llvm::StringRef value;
  /// PyTorch name of the parameter or buffer.
  llvm::StringRef target;
};

struct Node {
  llvm::StringRef name;
  /// Target, e.g. "torch.ops.aten.mm.default".
  llvm::StringRef target;
  /// Inputs as JSON: [{name, arg}].
  llvm::ArrayRef<Json> inputs;
  llvm::ArrayRef<Json> outputs;
  /// Label from fcdp.export, a JSON text, or "".
  llvm::StringRef label;
};

/// A parsed model. It refers to memory of the text and of the arena that the
/// document was parsed into.
struct Program {
  std::vector<InputSpec> inputs;
  /// The outputs. Only the loss, gradients and buffer mutations are kept.
  std::vector<OutputSpec> outputs;
  std::vector<Node> nodes;
  /// TensorMeta of every value.
  llvm::DenseMap<llvm::StringRef, const Json *> tensors;
  /// Integer results of nodes whose value was known at export.
  llvm::DenseMap<llvm::StringRef, int64_t> integers;
  /// The device that the step was exported on: `cuda` if any value is on it,
  /// otherwise `cpu`.
  Target device = Target::cpu;
};

llvm::Expected<Program> readProgram(const Json &model);

} // namespace fcdp::pt2
