// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OuterSpec.h"

#include "SettingSpec.h"
#include "mlir/IR/Builders.h"

#include <cmath>

using namespace mlir;
using namespace fcdp;

/// The number of a step must fit in 31 bits.
static constexpr double kMostSteps = 1u << 31;

namespace {
enum SettingIndex {
  kOptimizer,
  kRate,
  kMomentum,
  kFragments,
  kType,
  kForm,
  kOverlap
};
} // namespace

static SmallVector<Setting> makeSettings() {
  return {{"optimizer", 0, 0, 0, {"nesterov", "sgd"}},
          {"lr", 0.7},
          {"momentum", 0.9},
          {"fragments", 1, 1, kMostSteps},
          {"dtype", 1, 0, 0, {"f32", "bf16", "f16"}},
          {"wire", std::nullopt, 0, 0, getReductionForms(Target::cpu)},
          {"overlap", 0, 0, 0, {"off", "on"}}};
}

static Type getType(double index, MLIRContext *context) {
  if (index == 0)
    return Float32Type::get(context);
  return index == 1 ? Type(BFloat16Type::get(context))
                    : Type(Float16Type::get(context));
}

llvm::StringRef OuterSpec::findObstacle(Target target) const {
  return form.empty() || llvm::is_contained(getReductionForms(target), form)
             ? ""
             : "messages are coded without loss on CPUs only: expected 'wire' "
               "to be raw, int8 or int4 for the target 'cuda'";
}

llvm::Expected<OuterSpec> fcdp::parseOuter(StringRef text,
                                           MLIRContext *context) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t every;
  if (parts[0].getAsInteger(10, every) || every < 1 || every >= kMostSteps)
    return llvm::createStringError(
        "expected the number of steps between two outer steps, of at least 1, "
        "first, got '" +
        text + "'");
  SmallVector<Setting> settings = makeSettings();
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = parseSetting(part, "an outer step", settings))
      return std::move(error);
  double fragments = *settings[kFragments].value;
  if (fragments != std::floor(fragments) || fragments > every)
    return llvm::createStringError("expected 'fragments' to be a whole number "
                                   "of at most " +
                                   Twine(every) + ", got '" + text + "'");
  bool nesterov =
      *settings[kOptimizer].value == 0 && *settings[kMomentum].value != 0;
  Builder builder(context);
  OuterSpec spec;
  spec.outer = OuterAttr::get(
      context, every, builder.getF64FloatAttr(*settings[kRate].value),
      builder.getF64FloatAttr(*settings[kMomentum].value), nesterov,
      static_cast<int64_t>(fragments), *settings[kOverlap].value != 0);
  spec.type = getType(*settings[kType].value, context);
  if (std::optional<double> form = settings[kForm].value)
    spec.form = settings[kForm].words[static_cast<size_t>(*form)];
  return spec;
}
