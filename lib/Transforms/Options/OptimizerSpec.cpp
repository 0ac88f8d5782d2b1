// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OptimizerSpec.h"

#include "SettingSpec.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/IR/Builders.h"

#include <array>

using namespace mlir;
using namespace fcdp;

namespace {
/// An optimizer, and how its attribute is made of its settings.
struct OptimizerKind {
  StringRef name;
  SmallVector<Setting> settings;
  llvm::Expected<Attribute> (*make)(MLIRContext *context,
                                    ArrayRef<FloatAttr> numbers);
};
} // namespace

static llvm::Expected<Attribute> makeAdamW(MLIRContext *context,
                                           ArrayRef<FloatAttr> numbers) {
  return AdamWAttr::get(context, numbers[0], numbers[1], numbers[2], numbers[3],
                        numbers[4]);
}

static llvm::Expected<Attribute> makeLion(MLIRContext *context,
                                          ArrayRef<FloatAttr> numbers) {
  return LionAttr::get(context, numbers[0], numbers[1], numbers[2], numbers[3]);
}

static llvm::Expected<Attribute> makeSgd(MLIRContext *context,
                                         ArrayRef<FloatAttr> numbers) {
  double flag = numbers[4].getValueAsDouble();
  bool nesterov = flag == 1;
  if (flag != 0 && !nesterov)
    return llvm::createStringError("expected 'nesterov' to be 0 or 1");
  if (nesterov && (numbers[1].getValueAsDouble() == 0 ||
                   numbers[2].getValueAsDouble() != 0))
    return llvm::createStringError(
        "'nesterov' needs a momentum and no dampening");
  return SGDAttr::get(context, numbers[0], numbers[1], numbers[2], numbers[3],
                      nesterov);
}

/// Defaults are those of torch.optim, and of the authors' Lion.
static std::array<OptimizerKind, 3> makeKinds() {
  OptimizerKind adamw{"adamw",
                      {{"lr", 1e-3, 0, kAnyNumber},
                       {"beta1", 0.9, 0, 1},
                       {"beta2", 0.999, 0, 1},
                       {"eps", 1e-8, 0, kAnyNumber},
                       {"weight_decay", 1e-2, 0, kAnyNumber}},
                      makeAdamW};
  OptimizerKind sgd{"sgd",
                    {{"lr", 1e-3, 0, kAnyNumber},
                     {"momentum", 0, 0, kAnyNumber},
                     {"dampening", 0, -kAnyNumber, kAnyNumber},
                     {"weight_decay", 0, 0, kAnyNumber},
                     {"nesterov", 0, 0, 2}},
                    makeSgd};
  OptimizerKind lion{"lion",
                     {{"lr", 1e-4, 0, kAnyNumber},
                      {"beta1", 0.9, 0, 1},
                      {"beta2", 0.99, 0, 1},
                      {"weight_decay", 0, 0, kAnyNumber}},
                     makeLion};
  return {adamw, sgd, lion};
}

llvm::Expected<Attribute> fcdp::parseOptimizer(StringRef spec,
                                               MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  std::array<OptimizerKind, 3> kinds = makeKinds();
  auto *kind = llvm::find_if(kinds, [&](const OptimizerKind &other) {
    return other.name == parts[0];
  });
  if (kind == kinds.end())
    return llvm::createStringError("unknown optimizer '" + parts[0] +
                                   "'; expected 'adamw', 'sgd' or 'lion'");
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = parseSetting(part, "optimizer '" + kind->name + "'",
                                         kind->settings))
      return std::move(error);
  Builder builder(context);
  SmallVector<FloatAttr> numbers;
  for (const Setting &setting : kind->settings)
    numbers.push_back(builder.getF64FloatAttr(*setting.value));
  return kind->make(context, numbers);
}
