// SPDX-License-Identifier: Apache-2.0
#include "CommandLine.h"

#include "Suggestion.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace fcdp::run {

namespace {

/// Describes the first argument that no option takes.
std::string describeExtra(const CLI::App &app, const std::string &otherwise) {
  std::vector<std::string> known;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      known.push_back(name);
  for (const std::string &argument : app.remaining()) {
    const size_t begin = argument.find_first_not_of('-');
    if (begin == 0 || begin == argument.npos)
      continue;
    const size_t end = std::min(argument.find('='), argument.size());
    const std::string near =
        nearestName(argument.substr(begin, end - begin), known);
    return "unknown option '" + argument + "'" +
           (near.empty()
                ? ""
                : "; did you mean '--" + near + argument.substr(end) + "'?");
  }
  return otherwise;
}

/// Lets all options of integers accept whole numbers with an exponent, such as
/// `1e6`. Other texts stay as they are, for the option's own check.
void takeExponents(CLI::App &app) {
  CLI::Validator expand(
      [](std::string &text) {
        constexpr double most = double(int64_t(1) << 53);
        double number;
        const char *end = text.data() + text.size();
        auto read = std::from_chars(text.data(), end, number);
        if (text.find_first_of("eE") != text.npos && read.ec == std::errc() &&
            read.ptr == end && std::fabs(number) <= most &&
            std::trunc(number) == number)
          text = std::to_string(int64_t(number));
        return std::string();
      },
      "");
  for (CLI::Option *option : app.get_options())
    if (option->get_type_name().starts_with("INT") ||
        option->get_type_name().starts_with("UINT"))
      option->transform(expand);
}

} // namespace

void addRankOptions(CLI::App &app, std::optional<uint32_t> &nodes,
                    std::optional<uint32_t> &ranksPerNode) {
  app.add_option("--nodes", nodes,
                 "Start the ranks of this many nodes on this machine")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--ranks-per-node", ranksPerNode,
                 "Start this many ranks for each node")
      ->check(CLI::Range(1, 1 << 16));
}

void addThreads(CLI::App &app, std::optional<int> &threads) {
  app.add_option("--threads", threads,
                 "Use this many threads per rank; default: cores / ranks of "
                 "this machine")
      // The launcher of all ranks adds its own value to the user's.
      ->take_last()
      ->check(CLI::Range(1, 1 << 16));
}

void addNetworkOptions(CLI::App &app, std::optional<double> &timeout,
                       std::string &interface) {
  app.add_option("--timeout", timeout,
                 "Wait this many seconds for other ranks; default: 60 to join, "
                 "300 in a collective. A rank that is silent for a tenth of "
                 "it, but for at least 6 and at most 60 seconds, counts as "
                 "dead; default: 30")
      ->check(CLI::Range(1.0, 1e6));
  app.add_option("--interface", interface,
                 "Use this network interface for traffic between ranks");
}

void checkRanks(const std::optional<uint32_t> &nodes,
                const std::optional<uint32_t> &ranksPerNode) {
  constexpr uint64_t most = 1 << 16;
  uint64_t ranks = uint64_t(nodes.value_or(1)) * ranksPerNode.value_or(1);
  if (ranks > most)
    throw std::runtime_error("--nodes, --ranks-per-node: expected at most " +
                             std::to_string(most) + " ranks, got " +
                             std::to_string(ranks));
}

void checkTimeout(const std::optional<double> &timeout) {
  // A comparison with NaN is false, so a range does not refuse it.
  if (std::isnan(timeout.value_or(0)))
    throw std::runtime_error("--timeout: expected 1 to 1e6 seconds, got NaN");
}

bool parseArguments(CLI::App &app, int argc, char **argv) {
  const std::string hint = "; see " + app.get_name() + " --help";
  takeExponents(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ExtrasError &error) {
    throw std::runtime_error(describeExtra(app, error.what()) + hint);
  } catch (const CLI::ParseError &error) {
    throw std::runtime_error(error.what() + hint);
  }
  return true;
}

} // namespace fcdp::run
