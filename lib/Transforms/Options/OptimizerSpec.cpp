// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OptimizerSpec.h"

#include "SettingSpec.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fcdp;

llvm::Expected<Attribute> fcdp::parseOptimizer(StringRef spec,
                                               MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  // Defaults of torch.optim.AdamW and torch.optim.SGD.
  SmallVector<Setting> adamw{{"lr", 1e-3, 0, kAnyNumber},
                             {"beta1", 0.9, 0, 1},
                             {"beta2", 0.999, 0, 1},
                             {"eps", 1e-8, 0, kAnyNumber},
                             {"weight_decay", 1e-2, 0, kAnyNumber}};
  SmallVector<Setting> sgd{{"lr", 1e-3, 0, kAnyNumber},
                           {"momentum", 0, 0, kAnyNumber},
                           {"dampening", 0, -kAnyNumber, kAnyNumber},
                           {"weight_decay", 0, 0, kAnyNumber},
                           {"nesterov", 0, 0, 2}};
  bool isAdamW = parts[0] == "adamw";
  if (!isAdamW && parts[0] != "sgd")
    return llvm::createStringError("unknown optimizer '" + parts[0] +
                                   "'; expected 'adamw' or 'sgd'");
  SmallVector<Setting> &settings = isAdamW ? adamw : sgd;
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error =
            parseSetting(part, "optimizer '" + parts[0] + "'", settings))
      return std::move(error);

  Builder builder(context);
  auto number = [&](size_t index) {
    return builder.getF64FloatAttr(*settings[index].value);
  };
  if (isAdamW)
    return AdamWAttr::get(context, number(0), number(1), number(2), number(3),
                          number(4));
  bool nesterov = settings[4].value == 1;
  if (settings[4].value != 0 && !nesterov)
    return llvm::createStringError("expected 'nesterov' to be 0 or 1");
  if (nesterov && (settings[1].value == 0 || settings[2].value != 0))
    return llvm::createStringError(
        "'nesterov' needs a momentum and no dampening");
  return SGDAttr::get(context, number(0), number(1), number(2), number(3),
                      nesterov);
}
