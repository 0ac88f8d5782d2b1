// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OptimizerSpec.h"

#include "dialects/Fcdp/Fcdp.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace {
struct Setting {
  StringRef name;
  double value;
  /// Accepted values are in [least, below).
  double least, below;
};

constexpr double kAny = std::numeric_limits<double>::infinity();
} // namespace

static std::string listNames(ArrayRef<Setting> settings) {
  return llvm::join(
      llvm::map_range(settings, [](const Setting &s) { return s.name.str(); }),
      ", ");
}

/// Applies `name=value` to `settings`.
static llvm::Error apply(StringRef part, StringRef optimizer,
                         MutableArrayRef<Setting> settings) {
  StringRef name = part.split('=').first, text = part.split('=').second;
  auto *setting =
      llvm::find_if(settings, [&](const Setting &s) { return s.name == name; });
  if (setting == settings.end())
    return llvm::createStringError("optimizer '" + optimizer + "' has no '" +
                                   name + "'; it has " + listNames(settings));
  double value;
  if (text.getAsDouble(value))
    return llvm::createStringError("expected a number for '" + name +
                                   "', got '" + text + "'");
  if (!std::isfinite(value) || value < setting->least ||
      value >= setting->below) {
    std::string range =
        llvm::formatv("[{0}, {1})", setting->least, setting->below);
    return llvm::createStringError("expected '" + name + "' in " + range +
                                   ", got '" + text + "'");
  }
  setting->value = value;
  return llvm::Error::success();
}

llvm::Expected<Attribute> fcdp::parseOptimizer(StringRef spec,
                                               MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  // Defaults of torch.optim.AdamW and torch.optim.SGD.
  SmallVector<Setting> adamw{{"lr", 1e-3, 0, kAny},
                             {"beta1", 0.9, 0, 1},
                             {"beta2", 0.999, 0, 1},
                             {"eps", 1e-8, 0, kAny},
                             {"weight_decay", 1e-2, 0, kAny}};
  SmallVector<Setting> sgd{{"lr", 1e-3, 0, kAny},
                           {"momentum", 0, 0, kAny},
                           {"dampening", 0, -kAny, kAny},
                           {"weight_decay", 0, 0, kAny},
                           {"nesterov", 0, 0, 2}};
  bool isAdamW = parts[0] == "adamw";
  if (!isAdamW && parts[0] != "sgd")
    return llvm::createStringError("unknown optimizer '" + parts[0] +
                                   "'; expected 'adamw' or 'sgd'");
  SmallVector<Setting> &settings = isAdamW ? adamw : sgd;
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = apply(part, parts[0], settings))
      return std::move(error);

  Builder builder(context);
  auto number = [&](size_t index) {
    return builder.getF64FloatAttr(settings[index].value);
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
