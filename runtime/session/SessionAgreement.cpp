// SPDX-License-Identifier: Apache-2.0
//
// Exchanges facts between the ranks of a session.
#include "core/Checksum.h"
#include "job/FileAgreement.h"
#include "session/SessionImpl.h"

#include <algorithm>

namespace fcdp {

std::vector<std::string>
Session::Impl::exchangeTexts(const std::optional<SessionError> &problem,
                             const char *what, const std::string &text) {
  constexpr char isProblem = '!', isText = '=';
  std::vector<std::string> all = job->exchange(
      problem ? isProblem + std::string(problem->what()) : isText + text, what);
  auto found = std::find_if(all.begin(), all.end(), [&](const auto &one) {
    return one.starts_with(isProblem);
  });
  if (found == all.end()) {
    for (std::string &one : all)
      one.erase(0, 1);
    return all;
  }
  // All ranks have issued the same operations, so none waits for another.
  job->finish();
  phase = Phase::Failed;
  const uint32_t first = found - all.begin();
  if (first == job->rank())
    throw *problem;
  throw SessionError(SessionErrorCode::PeerFailed,
                     describeRank(plan.mesh, first) +
                         " failed: " + found->substr(1));
}

void Session::Impl::agree(const std::optional<SessionError> &problem,
                          const char *what, const std::vector<Fact> &facts,
                          SessionErrorCode code) {
  // For facts that all ranks have, a checksum shows whether they are equal.
  std::vector<Fact> common, ofSome;
  for (const Fact &fact : facts)
    (fact.isOfSome ? ofSome : common).push_back(fact);
  const std::string encoded = encode(common);
  std::vector<std::vector<Fact>> ofRanks;
  bool isSame = true;
  for (const std::string &text : exchangeTexts(
           problem, what,
           encode({{"", digestOf(std::as_bytes(std::span(encoded)))}}) +
               encode(ofSome))) {
    ofRanks.push_back(decodeFacts(text));
    isSame &= ofRanks.back().at(0).value == ofRanks.front().at(0).value;
  }
  if (!isSame) {
    ofRanks.clear();
    for (const std::string &text : job->exchange(encoded, what))
      ofRanks.push_back(decodeFacts(text));
  }
  const std::string difference = describeDifference(plan.mesh, ofRanks);
  if (difference.empty())
    return;
  job->finish();
  phase = Phase::Failed;
  throw SessionError(code, difference);
}

void Session::Impl::agreeOnFiles(
    std::optional<SessionError> problem, const char *what,
    const std::function<std::vector<FileFact>()> &makeFiles,
    SessionErrorCode code) {
  std::vector<FileFact> files;
  if (!problem)
    problem = problemOf(code, [&] { files = makeFiles(); });
  FileAgreement agreement(plan.mesh, std::move(files));
  const auto names = exchangeTexts(problem, what, agreement.names());
  std::string sums;
  problem = problemOf(code, [&] { sums = agreement.sums(job->rank(), names); });
  const auto allSums = exchangeTexts(problem, what, sums);
  agree(std::nullopt, what, agreement.facts(allSums), code);
}

std::vector<Fact> Session::Impl::openingFacts() const {
  std::vector<Fact> facts;
  if (options.facts)
    facts = options.facts();
  facts.push_back({"what happens to losses that are not finite",
                   std::to_string(int(options.onNonfinite))});
  facts.push_back({"the loss scale",
                   options.lossScaling ? options.lossScaling->text() : ""});
  facts.push_back(
      {"the recording of operations", options.record ? "on" : "off"});
  facts.push_back(
      {"deterministic operators", options.deterministic ? "yes" : "no"});
  facts.push_back(
      {"what sums gradients", options.reducesByNccl ? "nccl" : "fcdp"});
  for (const auto &[input, value] : options.padding)
    facts.push_back(
        {"the padding of input '" + input + "'", std::to_string(value)});
  return facts;
}

void Session::Impl::noteValue(const std::string &name, const std::string &role,
                              std::span<const std::byte> value) {
  const std::string key = name + " " + role;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(key)));
  checksum.add(value);
  valuesSet += checksum.value();
}

bool Session::Impl::isAnywhere(bool own, const char *what) {
  double flag = own;
  std::vector<double> flags = job->gather({&flag, 1}, what);
  return std::find(flags.begin(), flags.end(), 1.0) != flags.end();
}

} // namespace fcdp
