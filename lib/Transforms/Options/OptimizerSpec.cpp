// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OptimizerSpec.h"

#include "SettingSpec.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Support/DidYouMean.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace fcdp;

namespace {
/// An optimizer, and the function that makes its attribute from its settings.
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

static llvm::Expected<Attribute> makeAdamW8bit(MLIRContext *context,
                                               ArrayRef<FloatAttr> numbers) {
  return AdamW8bitAttr::get(context, numbers[0], numbers[1], numbers[2],
                            numbers[3], numbers[4]);
}

static llvm::Expected<Attribute> makeLion(MLIRContext *context,
                                          ArrayRef<FloatAttr> numbers) {
  return LionAttr::get(context, numbers[0], numbers[1], numbers[2], numbers[3]);
}

static llvm::Expected<Attribute> makeMuon(MLIRContext *context,
                                          ArrayRef<FloatAttr> numbers) {
  auto number = [&](size_t i) { return numbers[i].getValueAsDouble(); };
  for (auto [i, name] : {std::pair(3, "nesterov"), std::pair(8, "ns_steps")})
    if (number(i) != std::floor(number(i)))
      return llvm::createStringError("expected '" + llvm::Twine(name) +
                                     "' to be a whole number");
  return MuonAttr::get(context, numbers[0], numbers[1], numbers[2],
                       number(3) == 1, numbers[4], numbers[5], numbers[6],
                       numbers[7], static_cast<int64_t>(number(8)),
                       static_cast<AdjustLr>(number(9)));
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

static llvm::Expected<Attribute> makeAdafactor(MLIRContext *context,
                                               ArrayRef<FloatAttr> numbers) {
  if (numbers[1].getValueAsDouble() > 0)
    return llvm::createStringError("expected 'beta2_decay' of at most 0");
  return AdafactorAttr::get(context, numbers[0], numbers[1], numbers[2],
                            numbers[3], numbers[4], numbers[5]);
}

/// Returns the optimizers. The defaults are those of torch.optim, and of the
/// authors of Lion.
static std::array<OptimizerKind, 6> makeKinds() {
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
  OptimizerKind muon{MuonAttr::getMnemonic(),
                     {{"lr", 1e-3},
                      {"weight_decay", 0.1},
                      {"momentum", 0.95},
                      {"nesterov", 1, 0, 2},
                      {"ns_a", 3.4445, -kAnyNumber},
                      {"ns_b", -4.775, -kAnyNumber},
                      {"ns_c", 2.0315, -kAnyNumber},
                      {"eps", 1e-7},
                      {"ns_steps", 5, 0, 100},
                      {"adjust_lr_fn",
                       0,
                       0,
                       0,
                       {stringifyAdjustLr(AdjustLr::original),
                        stringifyAdjustLr(AdjustLr::match_rms_adamw)}}},
                     makeMuon};
  OptimizerKind adamw8bit{AdamW8bitAttr::getMnemonic(), adamw.settings,
                          makeAdamW8bit};
  OptimizerKind adafactor{AdafactorAttr::getMnemonic(),
                          {{"lr", 1e-2},
                           {"beta2_decay", -0.8, -kAnyNumber},
                           {"eps1", std::nullopt},
                           {"eps2", 1e-3},
                           {"d", 1, 1},
                           {"weight_decay", 0}},
                          makeAdafactor};
  return {adamw, sgd, lion, muon, adamw8bit, adafactor};
}

static llvm::Expected<Attribute> parseOne(StringRef spec,
                                          MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  std::array<OptimizerKind, 6> kinds = makeKinds();
  auto *kind = llvm::find_if(kinds, [&](const OptimizerKind &other) {
    return other.name == parts[0];
  });
  SmallVector<StringRef> known;
  for (const OptimizerKind &other : kinds)
    known.push_back(other.name);
  if (kind == kinds.end())
    return llvm::createStringError("unknown optimizer '" + parts[0] +
                                   "'; expected 'adamw', 'sgd', 'lion', "
                                   "'muon', 'adamw8bit' or 'adafactor'" +
                                   didYouMean(parts[0], known));
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = parseSetting(part, "optimizer '" + kind->name + "'",
                                         kind->settings))
      return std::move(error);
  Builder builder(context);
  SmallVector<FloatAttr> numbers;
  for (const Setting &setting : kind->settings)
    numbers.push_back(setting.value ? builder.getF64FloatAttr(*setting.value)
                                    : FloatAttr());
  return kind->make(context, numbers);
}

/// Returns the position of the `+` before a second optimizer's name, or npos.
/// The `+` of an exponent has a digit after it.
static size_t findSecond(StringRef spec) {
  for (size_t i = spec.find('+'); i != StringRef::npos;
       i = spec.find('+', i + 1))
    if (i + 1 == spec.size() || !llvm::isDigit(spec[i + 1]))
      return i;
  return StringRef::npos;
}

llvm::Expected<OptimizerSpec> fcdp::parseOptimizers(StringRef spec,
                                                    MLIRContext *context) {
  size_t second = findSecond(spec);
  llvm::Expected<Attribute> first = parseOne(spec.substr(0, second), context);
  if (!first)
    return first.takeError();
  if (auto eight = dyn_cast<AdamW8bitAttr>(*first);
      eight && second == StringRef::npos)
    return OptimizerSpec{
        *first, AdamWAttr::get(context, eight.getLr(), eight.getBeta1(),
                               eight.getBeta2(), eight.getEps(),
                               eight.getWeightDecay())};
  bool isMuon = isa<MuonAttr>(*first);
  if (!isMuon && second == StringRef::npos)
    return OptimizerSpec{*first, *first};
  bool mayHaveOther = isa<MuonAttr, AdafactorAttr>(*first);
  StringRef rest =
      second == StringRef::npos ? "adamw" : spec.substr(second + 1);
  llvm::Expected<Attribute> other = parseOne(rest, context);
  if (!other)
    return other.takeError();
  if (!mayHaveOther || cast<OptimizerAttrInterface>(*other).getNeededLayout())
    return llvm::createStringError(
        "expected '+' between 'muon' or 'adafactor' and 'adamw', 'sgd' or "
        "'lion', for the parameters that the first does not update, got '" +
        spec + "'");
  auto rateOf = [](Attribute one) {
    return cast<OptimizerAttrInterface>(one).getLr().getValueAsDouble();
  };
  if (rateOf(*first) == 0 && rateOf(*other) != 0)
    return llvm::createStringError(
        "expected a learning rate of '" +
        cast<OptimizerAttrInterface>(*first).getName() +
        "' above 0, since the other optimizer's rate is scaled with it");
  return OptimizerSpec{*first, *other};
}
