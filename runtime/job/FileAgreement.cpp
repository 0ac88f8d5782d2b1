// SPDX-License-Identifier: Apache-2.0
#include "job/FileAgreement.h"

#include <algorithm>

namespace fcdp {
namespace {

std::vector<std::vector<Fact>> decodeAll(const std::vector<std::string> &all) {
  std::vector<std::vector<Fact>> facts;
  for (const std::string &text : all)
    facts.push_back(decodeFacts(text));
  return facts;
}

} // namespace

std::string FileAgreement::names() const {
  std::vector<Fact> identities;
  for (const FileFact &file : files)
    identities.push_back({file.fact.name, file.files.identity()});
  return encode(identities);
}

std::string FileAgreement::sums(uint32_t rank,
                                const std::vector<std::string> &names) {
  const std::vector<std::vector<Fact>> ofRanks = decodeAll(names);
  std::vector<Fact> sums;
  for (const FileFact &file : files) {
    Sharing sharing;
    for (uint32_t other = 0; other < ofRanks.size(); ++other) {
      const Fact *named = findFact(ofRanks[other], file.fact.name);
      if (named && named->value == file.files.identity())
        sharing.ranks.push_back(other);
      else if (named)
        sharing.isOfAll = false;
    }
    if (!sharing.isOfAll) {
      auto own = std::find(sharing.ranks.begin(), sharing.ranks.end(), rank);
      const uint64_t sum = file.files.sumOfPart(
          uint32_t(own - sharing.ranks.begin()), uint32_t(sharing.ranks.size()),
          kMostBytesOfRank * mesh.locals);
      sums.push_back({file.fact.name, std::to_string(sum)});
    }
    sharings.push_back(std::move(sharing));
  }
  return encode(sums);
}

std::vector<Fact>
FileAgreement::facts(const std::vector<std::string> &sums) const {
  const std::vector<std::vector<Fact>> ofRanks = decodeAll(sums);
  std::vector<Fact> facts;
  for (size_t i = 0; i < files.size(); ++i) {
    Fact fact = files[i].fact;
    fact.value += (fact.value.empty() ? "" : ", ") + files[i].files.describe();
    uint64_t total = 0;
    for (uint32_t rank : sharings[i].ranks)
      if (const Fact *sum = findFact(ofRanks[rank], fact.name))
        total += std::stoull(sum->value);
    if (!sharings[i].isOfAll)
      fact.value += ", digest " + toDigits(total);
    facts.push_back(std::move(fact));
  }
  return facts;
}

} // namespace fcdp
