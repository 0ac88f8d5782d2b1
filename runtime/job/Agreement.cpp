// SPDX-License-Identifier: Apache-2.0
#include "job/Agreement.h"

#include "core/Checksum.h"
#include "files/FileDigest.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>

namespace fcdp {
namespace {

constexpr size_t kNamedRanks = 4;
constexpr const char *kNone = "none";

/// The ranks with one value, and the text in which the first of them shows it.
struct Holders {
  std::string shown;
  std::vector<uint32_t> ranks;
};

std::string listRanks(const Mesh &mesh, const std::vector<uint32_t> &ranks) {
  std::string text;
  const size_t named = std::min(ranks.size(), kNamedRanks);
  for (size_t i = 0; i < named; ++i)
    text += (i == 0 ? "" : ", ") + describeRank(mesh, ranks[i]);
  if (ranks.size() > named)
    text += " and " + std::to_string(ranks.size() - named) + " more ranks";
  return text;
}

/// Returns the values of one fact in the order of the ranks.
std::vector<Holders> valuesOf(const Fact &asked,
                              const std::vector<std::vector<Fact>> &facts) {
  std::vector<Holders> all;
  std::map<std::optional<std::string>, size_t> numbers;
  for (uint32_t rank = 0; rank < facts.size(); ++rank) {
    const Fact *own = findFact(facts[rank], asked.name);
    if (!own && asked.isOfSome)
      continue;
    auto [place, isNew] = numbers.emplace(
        own ? std::optional(own->value) : std::nullopt, all.size());
    if (isNew)
      all.push_back(
          {own ? own->place + (own->place.empty() ? "" : ", ") + own->value
               : kNone,
           {}});
    all[place->second].ranks.push_back(rank);
  }
  return all;
}

} // namespace

std::string digestOf(std::span<const std::byte> value) {
  Checksum checksum;
  checksum.add(value);
  return "digest " + toDigits(checksum.value());
}

const Fact *findFact(const std::vector<Fact> &facts, const std::string &name) {
  auto found = std::find_if(facts.begin(), facts.end(), [&](const Fact &fact) {
    return fact.name == name;
  });
  return found == facts.end() ? nullptr : &*found;
}

std::string encode(const std::vector<Fact> &facts) {
  std::string text;
  for (const Fact &fact : facts)
    for (const std::string &field : {fact.name, fact.value, fact.place,
                                     std::string(fact.isOfSome ? "1" : "")})
      text += std::to_string(field.size()) + ":" + field;
  return text;
}

std::vector<Fact> decodeFacts(const std::string &text) {
  std::vector<std::string> fields;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(':', at);
    if (colon == text.npos)
      throw std::runtime_error("expected facts that ranks compare");
    const size_t size = std::stoull(text.substr(at, colon - at));
    fields.push_back(text.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  constexpr size_t count = 4;
  std::vector<Fact> facts;
  for (size_t i = 0; i + count <= fields.size(); i += count)
    facts.push_back(
        {fields[i], fields[i + 1], fields[i + 2], !fields[i + 3].empty()});
  return facts;
}

std::string describeDifference(const Mesh &mesh,
                               const std::vector<std::vector<Fact>> &facts) {
  std::set<std::string> seen;
  for (const std::vector<Fact> &ofRank : facts)
    for (const Fact &fact : ofRank) {
      if (!seen.insert(fact.name).second)
        continue;
      const std::vector<Holders> values = valuesOf(fact, facts);
      if (values.size() < 2)
        continue;
      std::string text = "the ranks differ in " + fact.name + ": ";
      for (size_t i = 0; i < values.size(); ++i)
        text += (i == 0 ? "" : "; ") + values[i].shown + " on " +
                listRanks(mesh, values[i].ranks);
      return text + "; all ranks must have the same";
    }
  return "";
}

} // namespace fcdp
