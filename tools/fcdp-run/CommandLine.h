// SPDX-License-Identifier: Apache-2.0
//
// The options that the runtime's programs have in common.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

namespace fcdp::run {

/// Add options that choose the ranks, their threads, and their network.
void addRankOptions(CLI::App &app, std::optional<uint32_t> &nodes,
                    std::optional<uint32_t> &ranksPerNode);
void addThreads(CLI::App &app, std::optional<int> &threads);
void addNetworkOptions(CLI::App &app, std::optional<double> &timeout,
                       std::string &interface);

/// Throw std::runtime_error for values that the options themselves accept.
void checkRanks(const std::optional<uint32_t> &nodes,
                const std::optional<uint32_t> &ranksPerNode);
void checkTimeout(const std::optional<double> &timeout);

/// Parses the arguments. Options of integers accept whole numbers with an
/// exponent, such as `1e6`. Returns false after printing the help. Throws
/// std::runtime_error that refers to the help.
bool parseArguments(CLI::App &app, int argc, char **argv);

} // namespace fcdp::run
