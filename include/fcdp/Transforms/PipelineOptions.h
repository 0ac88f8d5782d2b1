// SPDX-License-Identifier: Apache-2.0
//
// The options of the pipeline, which PipelineOptions.td defines.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>

namespace fcdp {

#define GEN_PASS_DECL_PIPELINE
#include "fcdp/Transforms/PipelineOptions.h.inc"

namespace option {
/// One name per option.
#define GET_OptionId_DECL
#include "fcdp/Transforms/PipelineOptionTable.inc"
} // namespace option

/// A row of the table: one option.
struct PipelineOption {
  option::OptionId id;
  /// The flag, without dashes, and the placeholder of its value in help texts.
  llvm::StringRef name, placeholder;
  llvm::StringRef help;
  /// Sets the option in `options`. Errors list the texts that the option takes.
  llvm::Error (*read)(llvm::StringRef text, PipelineOptions &options);
  /// Whether the flag may be given several times; `;` joins the texts.
  bool isRepeatable;
};

/// Returns all options; the index of each is its id.
llvm::ArrayRef<PipelineOption> getPipelineOptions();
const PipelineOption &getPipelineOption(option::OptionId id);

/// Returns the text that an option was given, or none if it was not given.
using GetOptionText =
    llvm::function_ref<std::optional<llvm::StringRef>(const PipelineOption &)>;

/// The options of a step, and which of them were given.
struct StepOptions {
  PipelineOptions pipeline;
  llvm::SmallSet<option::OptionId, 16> given;

  bool isGiven(option::OptionId id) const { return given.contains(id); }
  /// Returns whether `auto` may choose the strategy: none is given, and no
  /// option needs one that `auto` does not look for.
  bool leavesStrategyOpen() const;
};

/// Reads all options from text. If only a cluster is given, it also gives the
/// numbers of nodes and of ranks. Errors begin with the name of the option.
llvm::Expected<StepOptions> readStepOptions(GetOptionText getText);

/// Applies settings to `options`: NAME=VALUE, several of which are joined by
/// '+'. The error names the option, and lists the values that it takes.
llvm::Error applySettings(llvm::StringRef settings, StepOptions &options);

/// Returns the name of an option whose value 'auto' chooses for a cluster, or
/// "" if there is none.
llvm::StringRef findChoiceForCluster(const PipelineOptions &options);

/// Calls `report` for each given option on messages between nodes that asks for
/// another form than the one that the buckets of `module` have.
void compareMessages(
    mlir::ModuleOp module, const StepOptions &options,
    llvm::function_ref<void(option::OptionId id, llvm::StringRef made,
                            llvm::StringRef asked)>
        report);

/// Reports an error if the table does not allow `text` for the option `name`.
mlir::LogicalResult checkOption(mlir::ModuleOp module, llvm::StringRef name,
                                llvm::StringRef text);

/// Checks the options of a pass that are in the table. A default is allowed
/// even if it cannot be given as a value, because it may mean a later choice.
template <typename... PassOption>
mlir::LogicalResult checkOptions(mlir::ModuleOp module,
                                 const PassOption &...option) {
  auto check = [&](const auto &option) {
    if (!option.getNumOccurrences() &&
        option.getDefault().compare(option.getValue()))
      return true;
    std::string text;
    llvm::raw_string_ostream(text) << option.getValue();
    return succeeded(checkOption(module, option.ArgStr, text));
  };
  return mlir::success((check(option) && ...));
}

} // namespace fcdp
