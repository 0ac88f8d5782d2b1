// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/WeightNames.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

namespace fcdp {

namespace {

/// Longer prefixes are not looked for.
constexpr size_t kMostWantedComponents = 5, kMostStoredComponents = 2;

constexpr std::array<std::string_view, 6> kWrappers = {
    "base_layer", "modules_to_save",      "original_module",
    "_orig_mod",  "_fsdp_wrapped_module", "_checkpoint_wrapped_module"};

bool isWrapper(std::string_view part, std::string_view before) {
  // The adapter's name stands behind "lora_A" and the like.
  if (part == "default")
    return before.starts_with("lora_") || before == "modules_to_save";
  return std::find(kWrappers.begin(), kWrappers.end(), part) != kWrappers.end();
}

/// Calls `visit` with each beginning of at most `most` components, which may be
/// empty, and the rest, which is not.
template <typename Visit>
void forEachSplit(const std::string &name, size_t most, Visit &&visit) {
  size_t begin = 0;
  for (size_t i = 0; i <= most; ++i) {
    visit(name.substr(0, begin), name.substr(begin));
    size_t dot = name.find('.', begin);
    if (dot == std::string::npos)
      return;
    begin = dot + 1;
  }
}

} // namespace

std::string withoutWrappers(std::string_view name) {
  std::string plain;
  std::string_view before;
  while (!name.empty()) {
    size_t dot = name.find('.');
    std::string_view part = name.substr(0, dot);
    if (!isWrapper(part, before))
      plain.append(plain.empty() ? "" : ".").append(part);
    before = part;
    name = dot == std::string_view::npos ? "" : name.substr(dot + 1);
  }
  return plain;
}

WeightNames::WeightNames(const std::vector<std::string> &wanted,
                         const std::vector<std::string> &stored) {
  for (const std::string &name : stored) {
    exact.emplace(name, name);
    auto [it, isNew] = plain.emplace(withoutWrappers(name), name);
    if (!isNew)
      it->second.clear();
  }
  choosePrefixes(wanted);
}

/// Chooses the prefixes that find most names, and of those the shortest. Keeps
/// both empty if two different choices are equally good.
void WeightNames::choosePrefixes(const std::vector<std::string> &wanted) {
  std::multimap<std::string, std::string> prefixesOf;
  for (const auto &[name, file] : plain)
    forEachSplit(name, kMostStoredComponents,
                 [&](const std::string &prefix, const std::string &rest) {
                   // "weight" alone says nothing.
                   if (prefix.empty() || rest.find('.') != std::string::npos)
                     prefixesOf.emplace(rest, prefix);
                 });
  std::map<std::pair<std::string, std::string>, size_t> found;
  for (const std::string &name : wanted)
    forEachSplit(withoutWrappers(name), kMostWantedComponents,
                 [&](const std::string &prefix, const std::string &rest) {
                   auto [first, last] = prefixesOf.equal_range(rest);
                   for (; first != last; ++first)
                     ++found[{prefix, first->second}];
                 });
  auto rank = [](const auto &choice) {
    const auto &[prefixes, count] = choice;
    return std::pair(count,
                     -int64_t(prefixes.first.size() + prefixes.second.size()));
  };
  const std::pair<const std::pair<std::string, std::string>, size_t> *best =
      nullptr;
  bool isUnique = true;
  for (const auto &choice : found) {
    if (!best || rank(choice) >= rank(*best)) {
      isUnique = !best || rank(choice) != rank(*best);
      best = &choice;
    }
  }
  if (best && isUnique)
    std::tie(wantedPrefix, storedPrefix) = best->first;
}

const std::string *WeightNames::find(const std::string &wanted) const {
  auto in = [](const std::map<std::string, std::string> &names,
               const std::string &name) -> const std::string * {
    auto found = names.find(name);
    return found == names.end() || found->second.empty() ? nullptr
                                                         : &found->second;
  };
  if (const std::string *name = in(exact, wanted))
    return name;
  std::string name = withoutWrappers(wanted);
  if (name.starts_with(wantedPrefix))
    name.replace(0, wantedPrefix.size(), storedPrefix);
  return in(plain, name);
}

} // namespace fcdp
