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

/// Returns "'a', 'b' or 'c'".
static std::string listQuoted(ArrayRef<StringRef> names) {
  std::string text;
  for (auto [i, name] : llvm::enumerate(names)) {
    if (i > 0)
      text += i + 1 < names.size() ? ", " : " or ";
    text += "'" + name.str() + "'";
  }
  return text;
}

/// Returns the value of an attribute's parameter.
template <typename T>
static T readAs(FloatAttr number) {
  if constexpr (std::is_same_v<T, FloatAttr>)
    return number;
  else
    return static_cast<T>(number.getValueAsDouble());
}

namespace {
/// An optimizer, whose record is in FcdpOptimizers.td.
struct OptimizerKind {
  unsigned index;
  const char *name;
  /// Returns the settings with their defaults.
  SmallVector<Setting> (*getSettings)();
  /// Makes the attribute from a number for each setting.
  Attribute (*make)(MLIRContext *context, ArrayRef<FloatAttr> numbers);
  /// Returns whether settings exclude each other, as `conflict` says.
  bool (*isConflict)(ArrayRef<FloatAttr> numbers);
  const char *conflict;
};
#define GET_OptimizerTable_IMPL
#include "dialects/Fcdp/FcdpTables.inc"
} // namespace

static Attribute makeAdamW8bit(MLIRContext *context,
                               ArrayRef<FloatAttr> numbers) {
  return AdamW8bitAttr::get(context, numbers[0], numbers[1], numbers[2],
                            numbers[3], numbers[4]);
}

static Attribute makeMuon(MLIRContext *context, ArrayRef<FloatAttr> numbers) {
  return MuonAttr::get(context, numbers[0], numbers[1], numbers[2],
                       readAs<bool>(numbers[3]), numbers[4], numbers[5],
                       numbers[6], numbers[7], readAs<int64_t>(numbers[8]),
                       readAs<AdjustLr>(numbers[9]));
}

static Attribute makeAdafactor(MLIRContext *context,
                               ArrayRef<FloatAttr> numbers) {
  return AdafactorAttr::get(context, numbers[0], numbers[1], numbers[2],
                            numbers[3], numbers[4], numbers[5]);
}

static SmallVector<Setting> getMuonSettings() {
  return {{"lr", 1e-3},
          {"weight_decay", 0.1},
          {"momentum", 0.95},
          {"nesterov", 1, 0, 2, {}, "to be a whole number"},
          {"ns_a", 3.4445, -kAnyNumber},
          {"ns_b", -4.775, -kAnyNumber},
          {"ns_c", 2.0315, -kAnyNumber},
          {"eps", 1e-7},
          {"ns_steps", 5, 0, 100, {}, "to be a whole number"},
          {"adjust_lr_fn",
           0,
           0,
           0,
           {stringifyAdjustLr(AdjustLr::original),
            stringifyAdjustLr(AdjustLr::match_rms_adamw)}}};
}

static SmallVector<Setting> getAdafactorSettings() {
  return {{"lr", 1e-2}, {"beta2_decay", -0.8, -kAnyNumber},
          {"eps1", {}}, {"eps2", 1e-3},
          {"d", 1, 1},  {"weight_decay", 0}};
}

/// Returns the optimizers.
static SmallVector<OptimizerKind> getKinds() {
  SmallVector<OptimizerKind> kinds(std::begin(OptimizerTable),
                                   std::end(OptimizerTable));
  auto never = [](ArrayRef<FloatAttr>) { return false; };
  kinds.push_back({3, "muon", getMuonSettings, makeMuon, never, ""});
  kinds.push_back(
      {4, "adamw8bit", kinds[0].getSettings, makeAdamW8bit, never, ""});
  kinds.push_back({5, "adafactor", getAdafactorSettings, makeAdafactor,
                   [](ArrayRef<FloatAttr> numbers) {
                     return numbers[1].getValueAsDouble() > 0;
                   },
                   "expected 'beta2_decay' of at most 0"});
  return kinds;
}

static llvm::Expected<Attribute> parseOne(StringRef spec,
                                          MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  SmallVector<OptimizerKind> kinds = getKinds();
  auto *kind = llvm::find_if(kinds, [&](const OptimizerKind &other) {
    return other.name == parts[0];
  });
  SmallVector<StringRef> known;
  for (const OptimizerKind &other : kinds)
    known.push_back(other.name);
  if (kind == kinds.end())
    return llvm::createStringError("unknown optimizer '" + parts[0] +
                                   "'; expected " + listQuoted(known) +
                                   didYouMean(parts[0], known));
  SmallVector<Setting> settings = kind->getSettings();
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error = parseSetting(
            part, "optimizer '" + Twine(kind->name) + "'", settings))
      return std::move(error);
  if (llvm::Error error = checkSettings(settings))
    return std::move(error);
  Builder builder(context);
  SmallVector<FloatAttr> numbers;
  for (const Setting &setting : settings)
    numbers.push_back(setting.value ? builder.getF64FloatAttr(*setting.value)
                                    : FloatAttr());
  if (kind->isConflict(numbers))
    return llvm::createStringError(kind->conflict);
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
