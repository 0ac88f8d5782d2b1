// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/MatchedWeights.h"
#include "checkpoint/FileErrors.h"

#include <algorithm>
#include <map>
#include <set>

namespace fcdp {

namespace {

/// "'a', 'b', 'c' and 4 more"
std::string listOf(const std::vector<std::string> &names) {
  constexpr size_t most = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (names.size() > most)
    text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

std::string tensorsOf(size_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

} // namespace

MatchedWeights::MatchedWeights(const StepPlan &plan,
                               const std::vector<std::string> &paths)
    : plan(plan) {
  std::vector<std::string> all;
  for (const auto &names : wanted())
    all.insert(all.end(), names.begin(), names.end());
  for (const std::string &path : paths) {
    std::unique_ptr<WeightSource> source = openWeights(path);
    WeightNames names(all, source->names());
    files.push_back({std::move(source), std::move(names)});
    allPaths += (allPaths.empty() ? "" : ", ") + path;
  }
  checkAllFound();
}

std::vector<std::vector<std::string>> MatchedWeights::wanted() const {
  std::vector<std::vector<std::string>> all;
  for (const auto &parameter : plan.parameters)
    all.push_back(parameter->names);
  for (const auto &buffer : plan.buffers)
    if (!buffer->constantOffset)
      all.push_back({buffer->name});
  return all;
}

void MatchedWeights::checkAllFound() const {
  std::vector<std::string> missing;
  for (const std::vector<std::string> &names : wanted())
    if (std::none_of(names.begin(), names.end(), [&](const auto &name) {
          return findName(name) != nullptr;
        }))
      missing.push_back(names.front());
  if (missing.empty())
    return;
  std::string message =
      "'" + missing[0] +
      "': expected a tensor of this name, got none; give the weights of the "
      "model that the step was compiled from";
  missing.erase(missing.begin());
  if (!missing.empty())
    message += "; also missing: " + listOf(missing);
  for (const std::string &note : notes())
    message += "; " + note;
  throwAt(allPaths, message);
}

const std::string *MatchedWeights::findName(const std::string &name) const {
  for (const File &file : files)
    if (const std::string *stored = file.names.find(name))
      return stored;
  return nullptr;
}

std::optional<StoredTensor> MatchedWeights::find(const std::string &name) {
  for (File &file : files)
    if (const std::string *stored = file.names.find(name))
      return file.source->find(*stored);
  return std::nullopt;
}

std::vector<std::string> MatchedWeights::names() const {
  std::vector<std::string> found;
  for (const auto &names : wanted())
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const auto &name) { return findName(name) != nullptr; });
  return found;
}

void MatchedWeights::dropPages() {
  for (File &file : files)
    file.source->dropPages();
}

std::vector<std::string> MatchedWeights::notes() const {
  std::vector<std::string> all;
  for (const File &file : files)
    for (std::string &note : notesOn(file))
      all.push_back(std::move(note));
  return all;
}

std::vector<std::string> MatchedWeights::notesOn(const File &file) const {
  const std::string &path = file.source->path();
  std::set<std::string> used;
  std::string renamed;
  std::map<std::pair<DType, DType>, size_t> converted;
  auto use = [&](const std::string &name, DType dtype, bool hasMaster) {
    const std::string *stored = file.names.find(name);
    if (!stored || !used.insert(*stored).second)
      return;
    if (renamed.empty() && *stored != name)
      renamed = "the step's '" + name + "' is '" + *stored + "' in " + path;
    DType found = file.source->find(*stored)->dtype;
    if (found != dtype && !(hasMaster && found == DType::F32))
      ++converted[{found, dtype}];
  };
  for (const auto &parameter : plan.parameters)
    for (const std::string &name : parameter->names)
      use(name, toDType(parameter->dtype),
          findState(*plan.buckets[parameter->bucket], plan::StateRole::master));
  for (const auto &buffer : plan.buffers)
    use(buffer->name, toDType(buffer->dtype), false);

  std::vector<std::string> notes, unused;
  if (!renamed.empty())
    notes.push_back(renamed);
  for (const auto &[types, count] : converted)
    notes.push_back(path + " has " + tensorsOf(count) + " in " +
                    name(types.first) + ", converted to the step's " +
                    name(types.second));
  for (const std::string &name : file.source->names())
    if (!used.contains(name))
      unused.push_back(name);
  if (!unused.empty())
    notes.push_back(path + " has " + tensorsOf(unused.size()) +
                    " that the step has not: " + listOf(unused));
  return notes;
}

} // namespace fcdp
