// SPDX-License-Identifier: Apache-2.0
#include "inputs/DataOptions.h"

#include <charconv>
#include <set>
#include <stdexcept>
#include <string_view>

namespace fcdp::run {

namespace {

[[noreturn]] void refuse(const std::string &key, const std::string &expected,
                         std::string_view value) {
  throw std::runtime_error("--data: " + key + ": expected " + expected +
                           ", got '" + std::string(value) + "'");
}

uint64_t parseSeed(std::string_view value) {
  uint64_t seed = 0;
  auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), seed);
  if (error != std::errc() || end != value.data() + value.size())
    refuse("shuffle", "a seed, a whole number in [0, 2^64)", value);
  return seed;
}

void set(DataOptions &options, const std::string &key, std::string_view value) {
  if (key == "shuffle")
    options.shuffleSeed = parseSeed(value);
  else
    throw std::runtime_error("--data: expected shuffle=SEED, got '" + key +
                             "'");
}

} // namespace

DataOptions parseDataOptions(const std::string &text) {
  DataOptions options;
  std::set<std::string, std::less<>> given;
  if (text.empty())
    return options;
  std::string_view rest = text;
  for (bool isLast = false; !isLast;) {
    size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    std::string key(item.substr(0, item.find('=')));
    if (!given.insert(key).second)
      throw std::runtime_error("--data: " + key + ": given twice");
    set(options, key,
        key.size() < item.size() ? item.substr(key.size() + 1)
                                 : std::string_view());
    isLast = comma == rest.npos;
    rest.remove_prefix(isLast ? rest.size() : comma + 1);
  }
  return options;
}

std::string toText(const DataOptions &options) {
  return options.shuffleSeed ? "shuffle=" + std::to_string(*options.shuffleSeed)
                             : "";
}

} // namespace fcdp::run
