// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/Options/OptimizerSpec.h"

#include "OptimizerKind.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Support/DidYouMean.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"

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

static bool isWhole(double number) { return number == std::floor(number); }

#define GET_OptimizerTable_IMPL
#include "dialects/Fcdp/FcdpTables.inc"

const OptimizerKind *fcdp::findOptimizerKind(StringRef name) {
  const auto *found =
      llvm::find_if(OptimizerTable, [&](const OptimizerKind &kind) {
        return kind.name == name;
      });
  return found == std::end(OptimizerTable) ? nullptr : found;
}

/// Returns the names of the optimizers for which `isListed` returns true.
template <typename Predicate>
static SmallVector<StringRef> listOptimizersWith(Predicate isListed) {
  SmallVector<StringRef> names;
  for (const OptimizerKind &kind : OptimizerTable)
    if (isListed(kind))
      names.push_back(kind.name);
  return names;
}

SmallVector<StringRef> fcdp::listOptimizers() {
  return listOptimizersWith([](const OptimizerKind &) { return true; });
}

namespace {
/// A parsed optimizer.
struct ParsedOptimizer {
  const OptimizerKind *kind;
  SmallVector<FloatAttr> numbers;
  OptimizerAttrInterface attr;
};
} // namespace

static llvm::Expected<ParsedOptimizer> parseOne(StringRef spec,
                                                MLIRContext *context) {
  SmallVector<StringRef> parts;
  spec.split(parts, ',');
  const OptimizerKind *kind = findOptimizerKind(parts[0]);
  if (!kind)
    return llvm::createStringError(
        "unknown optimizer '" + parts[0] + "'; expected " +
        listQuoted(listOptimizers()) + didYouMean(parts[0], listOptimizers()));
  SmallVector<Setting> settings = kind->getSettings();
  for (StringRef part : ArrayRef(parts).drop_front())
    if (llvm::Error error =
            parseSetting(part, "optimizer '" + kind->name + "'", settings))
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
  auto attr = cast<OptimizerAttrInterface>(kind->make(context, numbers));
  return ParsedOptimizer{kind, std::move(numbers), attr};
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
  size_t plus = findSecond(spec);
  bool isAlone = plus == StringRef::npos;
  llvm::Expected<ParsedOptimizer> first =
      parseOne(spec.substr(0, plus), context);
  if (!first)
    return first.takeError();
  StringRef rest = first->kind->rest;
  if (isAlone && rest.empty())
    return OptimizerSpec{first->attr, first->attr};
  if (isAlone && first->kind->restHasSettings)
    return OptimizerSpec{
        first->attr, findOptimizerKind(rest)->make(context, first->numbers)};
  llvm::Expected<ParsedOptimizer> other =
      parseOne(isAlone ? rest : spec.substr(plus + 1), context);
  if (!other)
    return other.takeError();
  if (!first->kind->takesRest || other->kind->needsLayout)
    return llvm::createStringError(
        "expected '+' between " +
        listQuoted(listOptimizersWith(
            [](const OptimizerKind &kind) { return kind.takesRest; })) +
        " and " + listQuoted(listOptimizersWith([](const OptimizerKind &kind) {
          return !kind.needsLayout;
        })) +
        ", for the parameters that the first does not update, got '" + spec +
        "'");
  auto isZero = [](FloatAttr rate) { return rate.getValueAsDouble() == 0; };
  if (isZero(first->attr.getLr()) && !isZero(other->attr.getLr()))
    return llvm::createStringError(
        "expected a learning rate of '" + first->kind->name +
        "' above 0, since the other optimizer's rate is scaled with it");
  return OptimizerSpec{first->attr, other->attr};
}
