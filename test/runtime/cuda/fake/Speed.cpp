// SPDX-License-Identifier: Apache-2.0

#include "Speed.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace fcdp::fake {

namespace {

/// Rates in operations or bytes per second, seconds, and bytes.
constexpr const char *kKeys[] = {
    "f64",           "f32",         "bf16",      "f16",
    "memory",        "launch",      "h2d",       "d2h",
    "host",          "copy_start",  "node",      "node_start",
    "local",         "local_start", "world",     "world_start",
    "first",         "firsts",      "sustained", "heat",
    "device",        "context",     "attention", "attention_backward",
    "attention_f16", "masked",      "narrow",    "communicator"};

/// Heads that the kernels of attention have no good tiles for.
constexpr int64_t kNarrowHead = 64;

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

double Speed::product(const std::string &type, double flops, double bytes) {
  bool isHot = secondsOfProducts >= get("heat", HUGE_VAL);
  double longest =
      std::max(seconds(type, flops) / (isHot ? get("sustained", 1) : 1),
               seconds("memory", bytes));
  secondsOfProducts += longest;
  return get("launch", 0) + longest;
}

double Speed::attention(double flops, int64_t head, bool isBackward,
                        bool isMasked) const {
  double share = (isMasked ? get("masked", 1) : 1) *
                 (head <= kNarrowHead ? get("narrow", 1) : 1);
  return get("launch", 0) +
         seconds(isBackward ? "attention_backward" : "attention",
                 flops / share);
}

double Speed::copy(bool isToHost, double bytes) const {
  return get("copy_start", 0) + seconds(isToHost ? "d2h" : "h2d", bytes);
}

double Speed::endOfCopy(bool isToHost, double seen, double begin, double end,
                        double bytes) {
  double &delay = delays[isToHost];
  if (seen >= copiesEnd) {
    copiesBegan = begin;
    copiedBytes = 0;
    delays[0] = delays[1] = 0;
  }
  copiedBytes += bytes;
  // A link that is slowed down has not been busy in the meantime.
  double ofLink = end - delay;
  end = std::max(ofLink, copiesBegan + seconds("host", copiedBytes));
  delay = end - ofLink;
  copiesEnd = std::max(copiesEnd, end);
  return end;
}

double Speed::collective(const std::string &kind, double bytes) const {
  return get(kind + "_start", 0) + seconds(kind, bytes);
}

double Speed::first(const std::string &work) {
  return ++runs[work] <= get("firsts", 1) ? get("first", 0) : 0;
}

} // namespace fcdp::fake
