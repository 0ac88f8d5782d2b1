// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/GroupSpec.h"

#include "OptimizerKind.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

static llvm::Error parsePatterns(StringRef text, GroupSpec &group) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  for (StringRef part : parts) {
    if (part.empty())
      return llvm::createStringError("expected a pattern of names, got ''");
    llvm::Expected<llvm::GlobPattern> glob = llvm::GlobPattern::create(part);
    if (!glob)
      return llvm::createStringError("expected a pattern of names, got '" +
                                     part + "': " + toString(glob.takeError()));
    group.patterns.push_back({part.str(), std::move(*glob)});
  }
  return llvm::Error::success();
}

static llvm::Expected<GroupSpec> parseGroup(StringRef text) {
  GroupSpec group;
  auto [patterns, settings] = text.split(':');
  if (patterns.empty() || settings.empty())
    return llvm::createStringError(
        "expected PATTERN[,PATTERN]...:KEY=VALUE[,KEY=VALUE]..., got '" + text +
        "'");
  if (llvm::Error error = parsePatterns(patterns, group))
    return std::move(error);
  SmallVector<Setting> own{{"lr", std::nullopt},
                           {"weight_decay", std::nullopt},
                           {"optimizer", std::nullopt, 0, 0, listOptimizers()}};
  SmallVector<StringRef> parts;
  settings.split(parts, ',');
  for (StringRef part : parts)
    if (llvm::Error error = parseSetting(part, "a group", own))
      return std::move(error);
  group.lr = own[0].value;
  group.weightDecay = own[1].value;
  if (own[2].value)
    group.optimizer = own[2].words[static_cast<size_t>(*own[2].value)];
  return group;
}

llvm::Expected<SmallVector<GroupSpec>> fcdp::parseGroups(StringRef text) {
  SmallVector<GroupSpec> groups;
  if (text.empty())
    return groups;
  SmallVector<StringRef> parts;
  text.split(parts, ';');
  for (StringRef part : parts) {
    llvm::Expected<GroupSpec> group = parseGroup(part);
    if (!group)
      return group.takeError();
    groups.push_back(std::move(*group));
  }
  return groups;
}

static bool matches(ParameterOp parameter, const GroupSpec::Pattern &pattern) {
  return llvm::any_of(
      parameter.getNames().getAsRange<StringAttr>(),
      [&](StringAttr name) { return pattern.glob.match(name); });
}

const GroupSpec *fcdp::findGroup(ParameterOp parameter,
                                 ArrayRef<GroupSpec> groups) {
  if (!parameter.getTrainable())
    return nullptr;
  const auto *group = llvm::find_if(groups, [&](const GroupSpec &candidate) {
    return llvm::any_of(candidate.patterns,
                        [&](const GroupSpec::Pattern &pattern) {
                          return matches(parameter, pattern);
                        });
  });
  return group == groups.end() ? nullptr : group;
}

GroupAttr fcdp::makeGroup(const GroupSpec *group, Attribute optimizer) {
  if (!group || (!group->lr && !group->weightDecay))
    return {};
  Builder builder(optimizer.getContext());
  return GroupAttr::get(
      optimizer.getContext(), builder.getF64FloatAttr(group->lr.value_or(1)),
      group->weightDecay
          ? builder.getF64FloatAttr(*group->weightDecay)
          : cast<OptimizerAttrInterface>(optimizer).getWeightDecay());
}

/// Returns "'a', 'b', 'c', ...": the first names of trained parameters.
static std::string listTrained(ModuleOp module) {
  constexpr size_t most = 5;
  SmallVector<std::string> names;
  for (auto parameter : module.getOps<ParameterOp>()) {
    if (!parameter.getTrainable())
      continue;
    if (names.size() == most) {
      names.push_back("...");
      break;
    }
    names.push_back("'" + cast<StringAttr>(parameter.getNames()[0]).str() +
                    "'");
  }
  return llvm::join(names, ", ");
}

static bool matchesTrained(ModuleOp module, const GroupSpec::Pattern &pattern) {
  return llvm::any_of(module.getOps<ParameterOp>(), [&](ParameterOp op) {
    return op.getTrainable() && matches(op, pattern);
  });
}

static LogicalResult refusePattern(ModuleOp module,
                                   const GroupSpec::Pattern &pattern) {
  ParameterOp frozen;
  for (auto op : module.getOps<ParameterOp>())
    if (matches(op, pattern))
      frozen = op;
  InFlightDiagnostic error =
      module.emitError("group: no parameter that is trained has a name like '")
      << pattern.text << "'; ";
  if (frozen)
    error << "'" << cast<StringAttr>(frozen.getNames()[0]).getValue()
          << "' is not trained: the model has it frozen, or the loss of the "
             "example inputs does not depend on it";
  else
    error << "there are " << listTrained(module);
  return error;
}

/// Checks that names match. A pattern of a list such as '*.bias,*norm*' may
/// match nothing, because some models have no bias. A whole name that no
/// parameter has is a mistake.
static LogicalResult checkGroup(ModuleOp module, const GroupSpec &group) {
  auto isUnmatched = [&](const GroupSpec::Pattern &pattern) {
    return !matchesTrained(module, pattern);
  };
  bool matchesNothing = llvm::all_of(group.patterns, isUnmatched);
  for (const GroupSpec::Pattern &pattern : group.patterns) {
    bool isName =
        StringRef(pattern.text).find_first_of("*?[") == StringRef::npos;
    if ((isName || matchesNothing) && isUnmatched(pattern))
      return refusePattern(module, pattern);
  }
  return success();
}

LogicalResult fcdp::checkPatterns(ModuleOp module, ArrayRef<GroupSpec> groups) {
  for (const GroupSpec &group : groups)
    if (failed(checkGroup(module, group)))
      return failure();
  return success();
}
