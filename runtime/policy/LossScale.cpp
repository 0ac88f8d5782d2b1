// SPDX-License-Identifier: Apache-2.0
#include "policy/LossScale.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

namespace fcdp {

namespace {

/// The least positive number in f16.
constexpr double kLeastScale = 0x1p-24;
constexpr double kMostInterval = double(int64_t(1) << 53);

std::optional<double> readSetting(std::string_view text) {
  double number = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() ||
      !std::isfinite(number))
    return std::nullopt;
  return number;
}

} // namespace

/// Reads one option. Used by one thread.
class LossScalingParser {
public:
  LossScalingParser(const std::string &text, const std::string &option)
      : option(option) {
    scaling.source = text;
  }

  LossScaling parse() {
    if (std::optional<double> number = readSetting(scaling.source)) {
      scaling.init = scaleOf(*number, scaling.source);
      scaling.interval = 0;
      return scaling;
    }
    std::string_view rest = scaling.source;
    for (size_t comma = 0; comma != rest.npos;) {
      comma = rest.find(',');
      readPart(rest.substr(0, comma));
      if (comma != rest.npos)
        rest.remove_prefix(comma + 1);
    }
    return scaling;
  }

private:
  [[noreturn]] void refuse(const std::string &message) const {
    throw std::runtime_error(option + ": " + message);
  }

  float scaleOf(double number, std::string_view text) const {
    if (!LossScale::isValid(number))
      refuse("expected a scale from 2^-24 to 3.4e38, got '" +
             std::string(text) + "'");
    return float(number);
  }

  void readPart(std::string_view part) {
    size_t equals = part.find('=');
    std::string name(part.substr(0, equals));
    if (equals == part.npos || (name != "init" && name != "growth" &&
                                name != "backoff" && name != "interval"))
      refuse("expected one number, or some of init=S, growth=F, backoff=F and "
             "interval=N, got '" +
             std::string(part) + "'");
    if (!given.insert(name).second)
      refuse("expected '" + name + "' once");
    std::string_view text = part.substr(equals + 1);
    set(name, readSetting(text), text);
  }

  void set(const std::string &name, std::optional<double> number,
           std::string_view text) {
    auto require = [&](bool holds, const char *what) {
      if (!number || !holds)
        refuse("expected " + std::string(what) + " for '" + name + "', got '" +
               std::string(text) + "'");
    };
    double value = number.value_or(0);
    if (name == "init") {
      require(true, "a number");
      scaling.init = scaleOf(value, text);
    } else if (name == "growth") {
      require(value > 1, "a number greater than 1");
      scaling.growth = value;
    } else if (name == "backoff") {
      require(value > 0 && value < 1, "a number between 0 and 1");
      scaling.backoff = value;
    } else {
      require(value >= 1 && value <= kMostInterval &&
                  value == std::floor(value),
              "a number of steps of at least 1");
      scaling.interval = int64_t(value);
    }
  }

  const std::string &option;
  std::set<std::string> given;
  LossScaling scaling;
};

LossScaling LossScaling::parse(const std::string &text,
                               const std::string &option) {
  return LossScalingParser(text, option).parse();
}

bool LossScale::isValid(double scale) {
  return scale >= kLeastScale && std::isfinite(float(scale));
}

void LossScale::restore(float value, int64_t growthTracker) {
  scale = value;
  tracker = growthTracker;
}

void LossScale::update(bool isSkipped) {
  if (settings.isFixed())
    return;
  if (isSkipped) {
    auto smaller = float(double(scale) * settings.backoff);
    exhausted = !isValid(smaller);
    scale = exhausted ? scale : smaller;
    tracker = 0;
  } else if (++tracker >= settings.interval) {
    auto greater = float(double(scale) * settings.growth);
    scale = isValid(greater) ? greater : scale;
    tracker = 0;
  }
}

} // namespace fcdp
