// SPDX-License-Identifier: Apache-2.0

#include "OptimizerChoice.h"

#include "OptimizerKind.h"
#include "fcdp/Analysis/HiddenMatrices.h"
#include "fcdp/Transforms/Options/GroupSpec.h"
#include "fcdp/Transforms/Options/OptimizerSpec.h"

using namespace mlir;
using namespace fcdp;

static OptimizerAttrInterface settingsOf(Attribute optimizer) {
  return cast<OptimizerAttrInterface>(optimizer);
}

static const OptimizerKind &kindOf(Attribute optimizer) {
  return *findOptimizerKind(settingsOf(optimizer).getName());
}

/// Returns the parameters that `optimizer` updates unless groups say otherwise.
static llvm::DenseSet<StringAttr> findUpdated(func::FuncOp step,
                                              Attribute optimizer) {
  const OptimizerKind &kind = kindOf(optimizer);
  if (kind.onlyHiddenMatrices)
    return findHiddenMatrices(step);
  llvm::DenseSet<StringAttr> updated;
  for (auto parameter : step->getParentOfType<ModuleOp>().getOps<ParameterOp>())
    if (RankedTensorType type = parameter.getTensorType();
        settingsOf(optimizer).canUpdate(type) &&
        type.getNumElements() >= kind.leastElements)
      updated.insert(parameter.getSymNameAttr());
  return updated;
}

namespace {
/// The parsed options.
struct OptimizerOptions {
  /// The text of the option `optimizer`.
  StringRef text;
  OptimizerSpec spec;
  SmallVector<GroupSpec> groups;

  FailureOr<Attribute> choose(ParameterOp parameter, bool isFirst,
                              const GroupSpec *group) const;
  FailureOr<UpdateByParameter> chooseAll(func::FuncOp step) const;
};
} // namespace

/// Returns the optimizer of the group. Without a group, returns the first
/// optimizer for the parameters that it updates, and the other one for the
/// rest.
FailureOr<Attribute> OptimizerOptions::choose(ParameterOp parameter,
                                              bool isFirst,
                                              const GroupSpec *group) const {
  if (!group || group->optimizer.empty())
    return isFirst ? spec.first : spec.rest;
  auto named = [&](Attribute optimizer) {
    return settingsOf(optimizer).getName() == group->optimizer;
  };
  if (!named(spec.first) && named(spec.rest))
    return spec.rest;
  if (!named(spec.first))
    return parameter->getParentOfType<ModuleOp>().emitError(
               "group: expected an optimizer of '")
           << text << "', got '" << group->optimizer << "'";
  if (!settingsOf(spec.first).canUpdate(parameter.getTensorType()))
    return parameter.emitError("group: '")
           << group->optimizer << "' cannot update " << parameter.getNames()[0]
           << " of type " << parameter.getTensorType();
  return spec.first;
}

/// Reports that the first optimizer has no parameter.
static InFlightDiagnostic reportUnused(ModuleOp module, Attribute optimizer) {
  return module.emitError("optimizer: '")
         << settingsOf(optimizer).getName()
         << "' would update nothing: " << kindOf(optimizer).unusedReason;
}

FailureOr<UpdateByParameter>
OptimizerOptions::chooseAll(func::FuncOp step) const {
  auto module = step->getParentOfType<ModuleOp>();
  llvm::DenseSet<StringAttr> updated = findUpdated(step, spec.first);
  UpdateByParameter updates;
  bool isUsed = false;
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    StringAttr name = parameter.getSymNameAttr();
    const GroupSpec *found = findGroup(parameter, groups);
    FailureOr<Attribute> chosen =
        choose(parameter, updated.contains(name), found);
    if (failed(chosen))
      return failure();
    updates[name] = {*chosen, makeGroup(found, *chosen)};
    isUsed |= *chosen == spec.first;
  }
  if (!updates.empty() && !isUsed)
    return reportUnused(module, spec.first);
  return updates;
}

FailureOr<UpdateByParameter> fcdp::chooseOptimizers(func::FuncOp step,
                                                    StringRef optimizer,
                                                    StringRef group) {
  auto module = step->getParentOfType<ModuleOp>();
  llvm::Expected<OptimizerSpec> spec =
      parseOptimizers(optimizer, module.getContext());
  if (!spec)
    return module.emitError() << llvm::toString(spec.takeError());
  llvm::Expected<SmallVector<GroupSpec>> groups = parseGroups(group);
  if (!groups)
    return module.emitError() << llvm::toString(groups.takeError());
  if (failed(checkPatterns(module, *groups)))
    return failure();
  return OptimizerOptions{optimizer, *spec, std::move(*groups)}.chooseAll(step);
}
