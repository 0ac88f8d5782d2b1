// SPDX-License-Identifier: Apache-2.0

#include "SettingSpec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fcdp;

static std::string listNames(ArrayRef<Setting> settings) {
  return llvm::join(
      llvm::map_range(settings, [](const Setting &s) { return s.name.str(); }),
      ", ");
}

llvm::Error fcdp::parseSetting(StringRef text, const Twine &owner,
                               MutableArrayRef<Setting> settings) {
  auto [name, number] = text.split('=');
  auto *setting = llvm::find_if(
      settings, [name = name](const Setting &s) { return s.name == name; });
  if (setting == settings.end())
    return llvm::createStringError(owner + " has no '" + name + "'; it has " +
                                   listNames(settings));
  if (!setting->words.empty()) {
    auto *word = llvm::find(setting->words, number);
    if (word == setting->words.end())
      return llvm::createStringError("expected '" + name + "' to be one of " +
                                     llvm::join(setting->words, ", ") +
                                     ", got '" + number + "'");
    setting->value = word - setting->words.begin();
    return llvm::Error::success();
  }
  double value;
  if (number.getAsDouble(value))
    return llvm::createStringError("expected a number for '" + name +
                                   "', got '" + number + "'");
  if (!std::isfinite(value) || value < setting->least ||
      value >= setting->below) {
    std::string range =
        llvm::formatv("[{0}, {1})", setting->least, setting->below);
    return llvm::createStringError("expected '" + name + "' in " + range +
                                   ", got '" + number + "'");
  }
  setting->value = value;
  return llvm::Error::success();
}

llvm::Error fcdp::checkSettings(ArrayRef<Setting> settings) {
  for (const Setting &setting : settings)
    if (setting.isAllowed && setting.value &&
        !setting.isAllowed(*setting.value))
      return llvm::createStringError(setting.refusal);
  return llvm::Error::success();
}
