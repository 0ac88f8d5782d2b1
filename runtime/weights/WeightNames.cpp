// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightNames.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace fcdp {

namespace {

/// The longest prefixes that are searched, in components.
constexpr size_t kMostWantedComponents = 5, kMostStoredComponents = 2;

/// Calls `visit` with each prefix of at most `most` components, which may be
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

/// Returns the last component of a prefix, which ends with a dot.
std::string_view lastComponent(std::string_view prefix) {
  prefix.remove_suffix(prefix.empty() ? 0 : 1);
  size_t dot = prefix.rfind('.');
  return dot == std::string_view::npos ? prefix : prefix.substr(dot + 1);
}

} // namespace

WeightNames::WeightNames(const std::vector<std::string> &wanted,
                         const std::vector<std::string> &stored,
                         WeightOrigin origin)
    : fileOrigin(std::move(origin)) {
  all.reserve(stored.size());
  for (const std::string &name : stored) {
    const Stored &one = all.emplace_back(Stored{name, parseTensorName(name)});
    exact.emplace(name, &one);
    byStored.emplace(one.parsed.stored, &one);
    byBase.emplace(one.parsed.base, &one);
  }
  choosePrefixes(wanted);
}

const std::string &WeightNames::mainName(const TensorName &name) const {
  return fileOrigin.isAdapter ? name.stored : name.base;
}

/// Chooses the prefixes that find the most names. Keeps both empty if two
/// different choices are equally good.
void WeightNames::choosePrefixes(const std::vector<std::string> &wanted) {
  std::multimap<std::string, std::string> prefixesOf;
  for (const auto &[name, file] : fileOrigin.isAdapter ? byStored : byBase)
    forEachSplit(name, kMostStoredComponents,
                 [&](const std::string &prefix, const std::string &rest) {
                   // "weight" alone tells nothing.
                   if (prefix.empty() || rest.find('.') != std::string::npos)
                     prefixesOf.emplace(rest, prefix);
                 });
  std::map<std::pair<std::string, std::string>, std::set<std::string>> found;
  std::set<std::string> names;
  for (const std::string &name : wanted)
    if (auto own = nameInModule(name))
      names.insert(mainName(parseTensorName(*own)));
  for (const std::string &name : names)
    forEachSplit(name, kMostWantedComponents,
                 [&](const std::string &prefix, const std::string &rest) {
                   auto [first, last] = prefixesOf.equal_range(rest);
                   for (; first != last; ++first)
                     // If the prefixes end equally, a shorter pair is
                     // equivalent.
                     if (prefix.empty() || first->second.empty() ||
                         lastComponent(prefix) != lastComponent(first->second))
                       found[{prefix, first->second}].insert(name);
                 });
  size_t most = 0;
  for (const auto &[prefixes, of] : found)
    most = std::max(most, of.size());
  std::vector<std::pair<std::string, std::string>> best;
  for (const auto &[prefixes, of] : found)
    if (of.size() == most)
      best.push_back(prefixes);
  if (best.empty() || best.front() == std::pair<std::string, std::string>())
    return;
  if (best.size() == 1)
    std::tie(wantedPrefix, storedPrefix) = best.front();
  else
    for (const auto &[prefix, other] : best)
      equalPrefixes.push_back(prefix);
}

bool WeightNames::isLike(const TensorName &wanted, const TensorName &stored,
                         Likeness likeness) const {
  const bool isBase = stored.kind == TensorKind::Base;
  const bool isOwn = isBase || stored.kind == TensorKind::Original;
  const bool wantsOwn =
      wanted.kind == TensorKind::Base || wanted.kind == TensorKind::Original;
  const bool isFilesAdapter =
      fileOrigin.adapter.empty() || fileOrigin.adapter == wanted.adapter;
  switch (likeness) {
  case Likeness::Equal:
    return true;
  case Likeness::Stored:
    if (wantsOwn)
      return stored.kind == wanted.kind;
    if (stored.kind == wanted.kind)
      return stored.adapter.empty() ? isFilesAdapter
                                    : stored.adapter == wanted.adapter;
    return wanted.kind == TensorKind::Copy && isBase && fileOrigin.isAdapter &&
           isFilesAdapter;
  case Likeness::Unwrapped:
    if (wantsOwn)
      return isOwn && !fileOrigin.isAdapter;
    return stored.kind == wanted.kind && !stored.adapter.empty() &&
           stored.adapter != wanted.adapter;
  case Likeness::Copied:
    return wanted.kind == TensorKind::Copy && isOwn && !fileOrigin.isAdapter;
  }
  return false;
}

std::optional<std::string>
WeightNames::nameInModule(const std::string &wanted) const {
  if (!wanted.starts_with(fileOrigin.module))
    return std::nullopt;
  return wanted.substr(fileOrigin.module.size());
}

std::vector<std::string> WeightNames::find(const std::string &wanted,
                                           Likeness likeness) const {
  auto own = nameInModule(wanted);
  return own ? findInModule(*own, likeness) : std::vector<std::string>{};
}

std::vector<std::string> WeightNames::findInModule(const std::string &wanted,
                                                   Likeness likeness) const {
  if (likeness == Likeness::Equal)
    return exact.contains(wanted) ? std::vector{wanted}
                                  : std::vector<std::string>{};
  const TensorName parsed = parseTensorName(wanted);
  const bool isStored = likeness == Likeness::Stored;
  const auto &names = isStored ? byStored : byBase;
  auto like = [&](const std::string &name) {
    std::vector<std::string> found;
    auto [first, last] = names.equal_range(name);
    for (; first != last; ++first)
      if (isLike(parsed, first->second->parsed, likeness))
        found.push_back(first->second->name);
    return found;
  };
  std::string name = isStored ? parsed.stored : parsed.base;
  std::vector<std::string> found = like(name);
  if (found.empty() && name.starts_with(wantedPrefix))
    found = like(name.replace(0, wantedPrefix.size(), storedPrefix));
  return found;
}

} // namespace fcdp
