// SPDX-License-Identifier: Apache-2.0
#include "policy/Schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <vector>

namespace fcdp {

namespace {

using Settings = std::map<std::string, std::string>;

/// The greatest number of steps. All whole numbers up to it are doubles.
constexpr double kMostSteps = double(int64_t(1) << 53);

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(',', begin)) != text.npos; begin = end + 1)
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

std::string joinNames(const std::vector<std::string> &names) {
  std::string list;
  for (const std::string &name : names)
    list += (list.empty() ? "" : ", ") + name;
  return list;
}

std::optional<double> readNumber(const std::string &text) {
  double number = 0;
  const char *end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || !std::isfinite(number))
    return std::nullopt;
  return number;
}

} // namespace

/// Reads one schedule. Used by one thread.
class ScheduleParser {
public:
  ScheduleParser(const std::string &text, const std::string &option)
      : parts(split(text)), option(option) {
    schedule.source = text;
  }

  Schedule parse() {
    readKind();
    for (size_t i = 1; i < parts.size(); ++i)
      readSetting(parts[i]);
    schedule.warmup = steps("warmup").value_or(0);
    schedule.start = fraction("start");
    if (given.count("start") && schedule.warmup == 0)
      fail("'start' needs a 'warmup'");
    if (schedule.kind == Schedule::Kind::Constant)
      return schedule;
    schedule.steps = requireSteps("steps");
    schedule.least = fraction("min");
    schedule.decaySteps = schedule.steps - schedule.warmup;
    if (schedule.kind == Schedule::Kind::Wsd)
      readDecay();
    else if (schedule.kind == Schedule::Kind::Cosine)
      schedule.shape = Schedule::Shape::Cosine;
    checkLengths();
    return schedule;
  }

private:
  [[noreturn]] void fail(const std::string &message) const {
    throw std::runtime_error(option + ": " + message);
  }

  void readKind() {
    using Kind = Schedule::Kind;
    const std::string &name = parts[0];
    if (name == "constant") {
      schedule.kind = Kind::Constant;
      known = {"warmup", "start"};
    } else if (name == "linear" || name == "cosine") {
      schedule.kind = name == "linear" ? Kind::Linear : Kind::Cosine;
      known = {"warmup", "start", "steps", "min"};
    } else if (name == "wsd") {
      schedule.kind = Kind::Wsd;
      known = {"warmup", "start", "steps", "min", "decay", "shape"};
    } else {
      fail("unknown schedule '" + name +
           "'; expected 'constant', 'linear', 'cosine' or 'wsd'");
    }
  }

  void readSetting(const std::string &part) {
    size_t equals = part.find('=');
    std::string name = part.substr(0, equals);
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail("schedule '" + parts[0] + "' has no '" + name + "'; it has " +
           joinNames(known));
    std::string value = equals == part.npos ? "" : part.substr(equals + 1);
    if (!given.emplace(name, value).second)
      fail("expected '" + name + "' once");
  }

  std::optional<int64_t> steps(const std::string &name) const {
    auto found = given.find(name);
    if (found == given.end())
      return std::nullopt;
    std::optional<double> number = readNumber(found->second);
    if (!number || *number != std::floor(*number) || *number < 0 ||
        *number > kMostSteps)
      fail("expected a number of steps for '" + name + "', got '" +
           found->second + "'");
    return int64_t(*number);
  }

  int64_t requireSteps(const std::string &name) const {
    std::optional<int64_t> number = steps(name);
    if (!number)
      fail("schedule '" + parts[0] + "' needs '" + name + "'");
    if (*number == 0)
      fail("expected '" + name + "' of at least 1, got '0'");
    return *number;
  }

  /// Returns 0 if it is not given.
  double fraction(const std::string &name) const {
    auto found = given.find(name);
    if (found == given.end())
      return 0;
    std::optional<double> number = readNumber(found->second);
    if (!number)
      fail("expected a number for '" + name + "', got '" + found->second + "'");
    if (*number < 0 || *number > 1)
      fail("expected '" + name + "' in [0, 1], got '" + found->second + "'");
    return *number;
  }

  void readDecay() {
    schedule.decaySteps = requireSteps("decay");
    auto found = given.find("shape");
    const std::string shape = found == given.end() ? "linear" : found->second;
    if (shape == "cosine")
      schedule.shape = Schedule::Shape::Cosine;
    else if (shape == "sqrt")
      schedule.shape = Schedule::Shape::Sqrt;
    else if (shape != "linear")
      fail("expected 'linear', 'cosine' or 'sqrt' for 'shape', got '" + shape +
           "'");
  }

  void checkLengths() const {
    bool isWsd = schedule.kind == Schedule::Kind::Wsd;
    int64_t parts = schedule.warmup + (isWsd ? schedule.decaySteps : 0);
    if (parts > schedule.steps)
      fail(std::string("expected 'warmup'") + (isWsd ? " and 'decay'" : "") +
           " to be at most 'steps', which counts them, too; got " +
           std::to_string(parts) + " of " + std::to_string(schedule.steps));
  }

  const std::vector<std::string> parts;
  const std::string &option;
  std::vector<std::string> known;
  Settings given;
  Schedule schedule;
};

Schedule Schedule::parse(const std::string &text, const std::string &option) {
  return ScheduleParser(text, option).parse();
}

double Schedule::decay(int64_t decayed) const {
  double progress = double(decayed) / double(decaySteps);
  switch (shape) {
  case Shape::Linear:
    return double(decaySteps - decayed) / double(decaySteps);
  case Shape::Cosine:
    return 0.5 * (1 + std::cos(std::numbers::pi * progress));
  case Shape::Sqrt:
    return 1 - std::sqrt(progress);
  }
  return 1;
}

double Schedule::factor(int64_t stepsDone) const {
  if (stepsDone < warmup)
    return start + (1 - start) * (double(stepsDone) / double(warmup));
  if (kind == Kind::Constant)
    return 1;
  if (stepsDone >= steps)
    return least;
  int64_t decayed = stepsDone - (steps - decaySteps);
  if (decayed <= 0)
    return 1;
  return least + (1 - least) * decay(decayed);
}

} // namespace fcdp
