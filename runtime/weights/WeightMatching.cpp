// SPDX-License-Identifier: Apache-2.0
#include "weights/WeightMatching.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace fcdp {

namespace {

class Matching {
public:
  Matching(const std::vector<TensorNames> &wanted,
           const std::vector<WeightNames> &files, const WeightSearch &search)
      : wanted(wanted), files(files), search(search), matches(wanted.size()) {}

  std::vector<WeightMatch> run() {
    for (bool isFallback : {false, true}) {
      for (size_t i = 0; i < kNumLikenesses; ++i)
        match(Likeness(i), isFallback);
    }
    for (size_t t = 0; t < wanted.size(); ++t)
      addOthers(t);
    return std::move(matches);
  }

private:
  void match(Likeness likeness, bool isFallback);
  void addPlaces(size_t tensor, size_t file, Likeness likeness);
  void addOthers(size_t tensor);
  bool isFallback(size_t file) const {
    return file < search.isFallback.size() && search.isFallback[file];
  }
  /// Returns the file's tensors for a name that are not used yet. A used tensor
  /// is not available for a less specific name.
  std::vector<std::string> findFree(const std::string &name, size_t file,
                                    Likeness likeness) const {
    std::vector<std::string> found = files[file].find(name, likeness);
    if (likeness != Likeness::Copied)
      std::erase_if(found, [&](const std::string &one) {
        return used.contains({file, one});
      });
    return found;
  }

  const std::vector<TensorNames> &wanted;
  const std::vector<WeightNames> &files;
  const WeightSearch &search;
  std::vector<WeightMatch> matches;
  std::set<WeightPlace> used;
  /// The adapters that have tensors in a file that is no fallback.
  std::set<std::string> adaptersFound;
};

void Matching::match(Likeness likeness, bool ofFallback) {
  if (likeness == Likeness::Copied && !search.makesCopies)
    return;
  std::map<WeightPlace, size_t> taken;
  for (size_t t = 0; t < wanted.size(); ++t) {
    if (!matches[t].places.empty())
      continue;
    // An adapter that a file contains was trained, so it has its own tensors.
    if (likeness == Likeness::Copied &&
        adaptersFound.contains(parseTensorName(wanted[t].front()).adapter))
      continue;
    for (size_t f = 0; f < files.size(); ++f)
      if (isFallback(f) == ofFallback)
        addPlaces(t, f, likeness);
    if (matches[t].places.empty())
      continue;
    matches[t].likeness = likeness;
    for (const WeightPlace &place : matches[t].places) {
      auto [it, isNew] = taken.emplace(place, t);
      if (!isNew && it->second != t && likeness != Likeness::Copied)
        throw std::runtime_error(
            "'" + place.name + "' could be '" + wanted[it->second].front() +
            "' and '" + wanted[t].front() +
            "' of the step; name the adapter that the file has (NAME=PATH)");
    }
  }
  for (const auto &[place, tensor] : taken) {
    used.insert(place);
    if (!ofFallback)
      adaptersFound.insert(parseTensorName(wanted[tensor].front()).adapter);
  }
  adaptersFound.erase("");
}

/// Adds the file's tensors for the names that are found in this way. If one
/// name of a tied parameter is found, the others are searched in less specific
/// ways, too, because their values must be the same.
void Matching::addPlaces(size_t tensor, size_t file, Likeness likeness) {
  std::vector<WeightPlace> &places = matches[tensor].places;
  std::vector<std::string> rest;
  bool isFound = false;
  auto add = [&](const std::string &name, Likeness how) {
    std::vector<std::string> found = findFree(name, file, how);
    for (std::string &one : found)
      if (WeightPlace place{file, std::move(one)};
          std::find(places.begin(), places.end(), place) == places.end())
        places.push_back(std::move(place));
    return !found.empty();
  };
  for (const std::string &name : wanted[tensor]) {
    if (add(name, likeness))
      isFound = true;
    else
      rest.push_back(name);
  }
  if (!isFound)
    return;
  for (const std::string &name : rest)
    for (size_t i = size_t(likeness) + 1; i < size_t(Likeness::Copied); ++i)
      if (add(name, Likeness(i)))
        break;
}

void Matching::addOthers(size_t tensor) {
  WeightMatch &match = matches[tensor];
  std::set<WeightPlace> known(match.places.begin(), match.places.end());
  for (size_t f = 0; f < files.size() && !match.places.empty(); ++f)
    if (!isFallback(f))
      for (const std::string &name : wanted[tensor])
        for (size_t i = 0; i < size_t(Likeness::Copied); ++i)
          for (std::string &one : findFree(name, f, Likeness(i)))
            if (WeightPlace place{f, std::move(one)};
                known.insert(place).second)
              match.others.push_back(std::move(place));
}

} // namespace

std::vector<WeightMatch> matchWeights(const std::vector<TensorNames> &wanted,
                                      const std::vector<WeightNames> &files,
                                      const WeightSearch &search) {
  return Matching(wanted, files, search).run();
}

} // namespace fcdp
