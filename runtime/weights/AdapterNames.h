// SPDX-License-Identifier: Apache-2.0
//
// The names that PEFT gives to the tensors of a model with adapters, and the
// names under which it stores them.
#pragma once

#include <string>
#include <string_view>

namespace fcdp {

/// The role of a tensor in PEFT.
enum class TensorKind {
  /// The tensor is the model's own.
  Base,
  /// The tensor is the model's own, and an adapter has a copy to train
  /// ("original_module").
  Original,
  /// The tensor is an adapter's copy of a tensor of the model
  /// ("modules_to_save").
  Copy,
  /// Only adapters have such a tensor ("lora_A").
  Adapter,
};

/// A name without the components that wrappers insert.
struct TensorName {
  TensorKind kind = TensorKind::Base;
  /// The adapter's name. It is empty for the model's own tensors, and in files
  /// that PEFT has stored.
  std::string adapter;
  /// The name under which PEFT stores a tensor of an adapter: it lacks the
  /// adapter's name, and the components of torch.compile, FSDP and activation
  /// checkpointing.
  std::string stored;
  /// The name in the model without adapters.
  std::string base;
};

TensorName parseTensorName(std::string_view name);

} // namespace fcdp
