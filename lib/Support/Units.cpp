// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Units.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

using namespace fcdp;

/// Formats a number with its unit. From 1000 on, the number is given in the
/// next unit, if there is one.
static std::string format(double value, const char *const *units,
                          size_t count) {
  size_t unit = 0;
  for (; unit + 1 < count && value >= 1000; ++unit)
    value /= 1000;
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::format("%.3g", value) << ' ' << units[unit];
  return text;
}

std::optional<int64_t> fcdp::parseInteger(llvm::StringRef text) {
  int64_t integer;
  if (!text.getAsInteger(10, integer))
    return integer;
  // Doubles represent whole numbers exactly up to this one.
  constexpr double most = int64_t(1) << 53;
  double number;
  if (text.find_first_of("eE") == text.npos || !llvm::isDigit(text.back()) ||
      text.getAsDouble(number) || !(std::fabs(number) <= most) ||
      std::trunc(number) != number)
    return std::nullopt;
  return static_cast<int64_t>(number);
}

std::string fcdp::formatBytes(int64_t bytes) {
  constexpr const char *units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return format(static_cast<double>(bytes), units, std::size(units));
}

std::string fcdp::formatSeconds(double seconds) {
  constexpr const char *units[] = {"ns", "us", "ms", "s"};
  return format(seconds * 1e9, units, std::size(units));
}
