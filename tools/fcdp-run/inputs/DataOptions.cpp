// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOptions.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string_view>

namespace fcdp::run {

namespace {

[[noreturn]] void refuse(const std::string &key, const std::string &expected,
                         std::string_view value) {
  throw std::runtime_error("--data: " + key + ": expected " + expected +
                           ", got '" + std::string(value) + "'");
}

/// Returns none unless all of `text` is a whole number that fits.
std::optional<uint64_t> parseWhole(std::string_view text) {
  uint64_t number = 0;
  const char *end = text.data() + text.size();
  auto [parsed, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && parsed == end ? std::optional(number)
                                               : std::nullopt;
}

/// Calls `use` with each part of `text`, of which there is at least one.
void forEachPart(std::string_view text, char separator,
                 const std::function<void(std::string_view)> &use) {
  for (;;) {
    size_t end = text.find(separator);
    use(text.substr(0, end));
    if (end == text.npos)
      return;
    text.remove_prefix(end + 1);
  }
}

void setShuffle(DataOptions &options, std::string_view value) {
  options.shuffleSeed = parseWhole(value);
  if (!options.shuffleSeed)
    refuse("shuffle", "a seed, a whole number in [0, 2^64)", value);
}

/// The most digits of a decimal number after and before the point.
constexpr size_t kMostDecimals = 6, kMostDigits = 9;
constexpr uint64_t kMillion = 1000000;
/// The greatest period, since it is kept as a table.
constexpr uint64_t kMostRowsOfPeriod = 100000;

/// Returns a number in millionths, or none unless `text` is a positive decimal
/// number.
std::optional<uint64_t> parseMillionths(std::string_view text) {
  size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  std::string decimals(text.substr(std::min(point + 1, text.size())));
  if (digits.empty() || digits.size() > kMostDigits ||
      decimals.size() > kMostDecimals ||
      decimals.empty() != (point == text.size()))
    return std::nullopt;
  decimals.resize(kMostDecimals, '0');
  auto millionths = parseWhole(digits + decimals);
  return millionths == uint64_t(0) ? std::nullopt : millionths;
}

void setWeights(DataOptions &options, std::string_view value) {
  std::vector<uint64_t> weights;
  uint64_t divisor = 0;
  forEachPart(value, ':', [&](std::string_view text) {
    auto weight = parseMillionths(text);
    if (!weight)
      refuse("weights",
             "positive numbers of at most 9 digits and 6 decimals, separated "
             "by ':'",
             value);
    weights.push_back(*weight);
    divisor = std::gcd(divisor, *weight);
  });
  uint64_t sum = 0;
  for (uint64_t weight : weights) {
    sum += weight / divisor;
    options.weights.push_back(uint32_t(weight / divisor));
  }
  if (sum > kMostRowsOfPeriod)
    refuse("weights",
           "a sum of at most " + std::to_string(kMostRowsOfPeriod) +
               " as whole numbers in lowest terms, not " + std::to_string(sum),
           value);
}

void setValidation(DataOptions &options, std::string_view value) {
  uint64_t millionths = parseMillionths(value).value_or(kMillion);
  if (millionths >= kMillion)
    refuse("validation",
           "a number between 0 and 1 of at most 6 decimals, such as 0.01",
           value);
  options.validationMillionths = uint32_t(millionths);
}

void setSplit(DataOptions &options, std::string_view value) {
  if (value != "train" && value != "validation")
    refuse("split", "train or validation", value);
  options.split = value == "train" ? Split::Train : Split::Validation;
}

/// Returns, for example, "0.01" for 10000.
std::string millionthsText(uint32_t millionths) {
  std::string digits = std::to_string(kMillion + millionths).substr(1);
  return "0." + digits.substr(0, digits.find_last_not_of('0') + 1);
}

} // namespace

DataOptions parseDataOptions(const std::string &text) {
  using Set = void (*)(DataOptions &, std::string_view);
  std::map<std::string, Set> keys = {{"shuffle", setShuffle},
                                     {"weights", setWeights},
                                     {"validation", setValidation},
                                     {"split", setSplit}};
  DataOptions options;
  if (text.empty())
    return options;
  forEachPart(text, ',', [&](std::string_view item) {
    std::string key(item.substr(0, item.find('=')));
    auto found = keys.find(key);
    if (found == keys.end())
      throw std::runtime_error(
          "--data: expected shuffle=SEED, weights=W:W..., validation=FRACTION "
          "or split=train|validation, got '" +
          key + "'");
    if (!found->second)
      throw std::runtime_error("--data: " + key + ": given twice");
    found->second(options, item.substr(std::min(key.size() + 1, item.size())));
    found->second = nullptr;
  });
  if (options.split == Split::Validation && options.validationMillionths == 0)
    throw std::runtime_error("--data: split=validation: expected "
                             "validation=FRACTION, too");
  return options;
}

std::string toText(const DataOptions &options) {
  std::string text;
  auto add = [&](const std::string &key, const std::string &value) {
    text += (text.empty() ? "" : ",") + key + "=" + value;
  };
  if (options.shuffleSeed)
    add("shuffle", std::to_string(*options.shuffleSeed));
  std::string weights;
  for (uint32_t weight : options.weights)
    weights += (weights.empty() ? "" : ":") + std::to_string(weight);
  if (!weights.empty())
    add("weights", weights);
  if (options.validationMillionths != 0)
    add("validation", millionthsText(options.validationMillionths));
  if (options.split == Split::Validation)
    add("split", "validation");
  return text;
}

} // namespace fcdp::run
