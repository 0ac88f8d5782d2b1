// SPDX-License-Identifier: Apache-2.0

#include "Speed.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace fcdp::fake {

namespace {

/// Rates in operations or bytes per second, seconds, and bytes.
constexpr const char *kKeys[] = {
    "f64",        "f32",     "bf16",        "f16",         "memory",
    "launch",     "h2d",     "d2h",         "copy_start",  "node",
    "node_start", "local",   "world",       "first",       "local_start",
    "device",     "context", "world_start", "communicator"};

} // namespace

Speed::Speed(const std::string &text) {
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    size_t equals = entry.find('=');
    std::string key = entry.substr(0, equals);
    bool isKnown =
        std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
    if (equals == entry.npos || !isKnown) {
      std::string message = "expected KEY=NUMBER with one of the keys";
      for (const char *known : kKeys)
        message += std::string(" ") + known;
      throw std::invalid_argument(message + ", got '" + entry + "'");
    }
    values[key] = std::stod(entry.substr(equals + 1));
  }
}

double Speed::get(const std::string &key, double otherwise) const {
  auto found = values.find(key);
  return found == values.end() ? otherwise : found->second;
}

double Speed::seconds(const std::string &rate, double amount) const {
  double perSecond = get(rate, 0);
  return perSecond == 0 ? 0 : amount / perSecond;
}

double Speed::kernel(double bytes) const {
  return get("launch", 0) + seconds("memory", bytes);
}

double Speed::product(const std::string &type, double flops,
                      double bytes) const {
  return get("launch", 0) +
         std::max(seconds(type, flops), seconds("memory", bytes));
}

double Speed::copy(bool isToHost, double bytes) const {
  return get("copy_start", 0) + seconds(isToHost ? "d2h" : "h2d", bytes);
}

double Speed::collective(const std::string &kind, double bytes) const {
  return get(kind + "_start", 0) + seconds(kind, bytes);
}

double Speed::first(const std::string &work) {
  return known.insert(work).second ? get("first", 0) : 0;
}

} // namespace fcdp::fake
