// SPDX-License-Identifier: Apache-2.0
//
// The model of an archive (models/NAME.json): what the step's graph and its
// signature say, still in the archive's terms.
#pragma once

#include "fcdp/Support/Json.h"
#include "llvm/ADT/DenseMap.h"

#include <vector>

namespace fcdp::pt2 {

struct InputSpec {
  enum class Kind { Parameter, Buffer, TensorConstant, UserInput };
  Kind kind;
  /// Name in the graph.
  llvm::StringRef value;
  /// Name in PyTorch; of a user input, the name in the graph.
  llvm::StringRef name;
  /// Of a buffer: part of the state dict.
  bool persistent = false;
};

struct OutputSpec {
  enum class Kind { Loss, Gradient, BufferMutation };
  Kind kind;
  llvm::StringRef value;
  /// The parameter or buffer, in PyTorch.
  llvm::StringRef target;
};

struct Node {
  llvm::StringRef name;
  /// "torch.ops.aten.mm.default"
  llvm::StringRef target;
  /// [{name, arg}]
  llvm::ArrayRef<Json> inputs;
  llvm::ArrayRef<Json> outputs;
  /// fcdp.export's label, a JSON text, or "".
  llvm::StringRef label;
};

/// Borrows from the text and the arena that the document was parsed into.
struct Program {
  std::vector<InputSpec> inputs;
  /// User outputs other than the loss are left out.
  std::vector<OutputSpec> outputs;
  std::vector<Node> nodes;
  /// TensorMeta of every value.
  llvm::DenseMap<llvm::StringRef, const Json *> tensors;
  /// Results of nodes that are integers whose value the export knew.
  llvm::DenseMap<llvm::StringRef, int64_t> integers;
  /// What the step was exported on: `cuda` if any value is there, else `cpu`.
  llvm::StringRef device = "cpu";
};

llvm::Expected<Program> readProgram(const Json &model);

} // namespace fcdp::pt2
