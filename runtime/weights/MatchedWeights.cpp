// SPDX-License-Identifier: Apache-2.0
#include "weights/MatchedWeights.h"
#include "core/SumKernels.h"
#include "files/FileErrors.h"

#include <algorithm>

namespace fcdp {

namespace {

/// The ends of names of tensors that bitsandbytes stores beside a packed
/// weight.
constexpr const char *kPackedEnds[] = {".absmax",
                                       ".quant_map",
                                       ".nested_absmax",
                                       ".nested_quant_map",
                                       ".quant_state.bitsandbytes__nf4",
                                       "SCB",
                                       "weight_format"};

/// Returns, for example, "'a', 'b', 'c' and 4 more".
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
                               const std::vector<std::string> &given) {
  for (const auto &parameter : plan.parameters)
    wanted.push_back({parameter->names,
                      toDType(parameter->packed ? parameter->packed->dtype
                                                : parameter->dtype),
                      findState(*plan.buckets[parameter->bucket],
                                plan::StateRole::master) != nullptr,
                      /*isOptional=*/false, parameter->packed != nullptr});
  for (const auto &buffer : plan.buffers)
    wanted.push_back({{buffer->name},
                      toDType(buffer->dtype),
                      /*hasMaster=*/false,
                      buffer->constantOffset.has_value()});
  std::vector<TensorNames> tensors;
  std::vector<std::string> all;
  for (const Wanted &tensor : wanted) {
    tensors.push_back(tensor.names);
    all.insert(all.end(), tensor.names.begin(), tensor.names.end());
  }
  files = openGiven(given, tensors);
  WeightSearch search;
  for (const GivenWeights &file : files) {
    namesOf.emplace_back(all, file.source->names(), file.origin);
    search.isFallback.push_back(file.source->isArchive());
    allPaths += (allPaths.empty() ? "" : ", ") + file.source->path();
  }
  try {
    matches = matchWeights(tensors, namesOf, search);
  } catch (const std::exception &error) {
    throwAt(allPaths, error.what());
  }
  match();
}

void MatchedWeights::match() {
  for (size_t t = 0; t < wanted.size(); ++t) {
    const WeightMatch &match = matches[t];
    used.insert(match.places.begin(), match.places.end());
    if (match.places.empty())
      continue;
    for (const std::string &name : wanted[t].names)
      placeOf.emplace(name, match.places.front());
    if (wanted[t].isPacked)
      for (const WeightPlace &place : match.places)
        for (const char *end : kPackedEnds)
          used.insert({place.file, nameBeside(place.name, end)});
  }
  checkAdapters();
  checkAllFound();
  for (size_t t = 0; t < wanted.size(); ++t)
    if (!wanted[t].isOptional)
      checkEqual(wanted[t], matches[t]);
}

std::string MatchedWeights::describe(const WeightPlace &place) const {
  return "'" + place.name + "' in " + files[place.file].source->path();
}

void MatchedWeights::checkAllFound() const {
  std::vector<std::string> missing;
  for (size_t t = 0; t < wanted.size(); ++t)
    if (matches[t].places.empty() && !wanted[t].isOptional)
      missing.push_back(wanted[t].names.front());
  if (missing.empty())
    return;
  std::string message = "'" + missing[0] +
                        "': expected a tensor of this name, got none; give the "
                        "weights of the model that the step was compiled from";
  for (const GivenWeights &file : files)
    message += adviceOnForm(file.source->path(), "to-model");
  missing.erase(missing.begin());
  if (!missing.empty())
    message += "; also missing: " + listOf(missing);
  for (const WeightNames &names : namesOf)
    if (!names.undecided().empty())
      message += "; equally many names are found after " +
                 listOf(names.undecided()) +
                 ", so none is chosen: name the module that each file is for "
                 "(MODULE=PATH)";
  for (const std::string &note : notes())
    message += "; " + note;
  throwAt(allPaths, message);
}

/// Checks that several names of one tensor, or several files that have it,
/// agree.
void MatchedWeights::checkEqual(const Wanted &tensor,
                                const WeightMatch &match) {
  for (size_t i = 1; i < match.places.size(); ++i)
    if (!haveSameValues(read(match.places[0]), read(match.places[i])))
      throwAt(files[match.places[0].file].source->path(),
              "'" + match.places[0].name + "' and " +
                  describe(match.places[i]) +
                  " have different values, and both are '" +
                  tensor.names.front() + "' of the step" +
                  (tensor.names.size() > 1 ? ", a tied parameter" : "") +
                  "; leave one of them out");
}

/// Checks that the step uses all adapters of the files, which would otherwise
/// be left out silently.
void MatchedWeights::checkAdapters() const {
  for (size_t f = 0; f < files.size(); ++f) {
    if (files[f].source->isArchive())
      continue;
    for (const std::string &name : unusedOf(f)) {
      TensorKind kind = parseTensorName(name).kind;
      if (!files[f].origin.isAdapter && kind != TensorKind::Adapter &&
          kind != TensorKind::Copy)
        continue;
      for (size_t t = 0; t < wanted.size(); ++t) {
        const auto &others = matches[t].others;
        if (std::find(others.begin(), others.end(), WeightPlace{f, name}) !=
            others.end())
          throwAt(files[f].source->path(),
                  "'" + name + "' of an adapter is not used, as the step's '" +
                      wanted[t].names.front() + "' is " +
                      describe(matches[t].places.front()) +
                      "; leave one of the files out");
      }
      std::vector<std::string> unused = unusedOf(f);
      throwAt(files[f].source->path(),
              "expected an adapter of the step's model, got " +
                  tensorsOf(unused.size()) +
                  " that the step has not: " + listOf(unused));
    }
  }
}

std::optional<StoredTensor>
MatchedWeights::findAt(const WeightPlace &place) const {
  return files[place.file].source->find(place.name);
}

StoredTensor MatchedWeights::read(const WeightPlace &place) const {
  return *findAt(place);
}

std::optional<StoredTensor> MatchedWeights::find(const std::string &name) {
  auto found = placeOf.find(name);
  if (found == placeOf.end())
    return std::nullopt;
  return read(found->second);
}

std::optional<StoredTensor> MatchedWeights::findBeside(const std::string &name,
                                                       const std::string &end) {
  auto found = placeOf.find(name);
  if (found == placeOf.end())
    return std::nullopt;
  const WeightPlace &place = found->second;
  return findAt({place.file, nameBeside(place.name, end)});
}

std::vector<std::string> MatchedWeights::names() const {
  std::vector<std::string> found;
  for (const auto &[name, place] : placeOf)
    found.push_back(name);
  return found;
}

void MatchedWeights::dropPages() {
  for (GivenWeights &file : files)
    file.source->dropPages();
}

std::vector<std::string> MatchedWeights::notes() const {
  std::vector<std::string> all;
  for (size_t f = 0; f < files.size(); ++f)
    for (std::string &note : notesOn(f))
      all.push_back(std::move(note));
  return all;
}

std::vector<std::string> MatchedWeights::unusedOf(size_t file) const {
  std::vector<std::string> unused;
  for (const std::string &name : files[file].source->names())
    if (!used.contains({file, name}))
      unused.push_back(name);
  return unused;
}

std::vector<std::string> MatchedWeights::notesOn(size_t file) const {
  const std::string &path = files[file].source->path();
  std::string renamed, copied;
  std::map<std::pair<DType, DType>, size_t> converted;
  std::set<std::string> counted;
  for (size_t t = 0; t < wanted.size(); ++t) {
    if (matches[t].places.empty() || matches[t].places.front().file != file)
      continue;
    const std::string &stored = matches[t].places.front().name;
    const auto &[names, dtype, hasMaster, isOptional, isPacked] = wanted[t];
    std::string &text =
        matches[t].likeness == Likeness::Copied ? copied : renamed;
    bool isRenamed =
        std::none_of(names.begin(), names.end(), [&](const std::string &own) {
          return namesOf[file].nameInModule(own) == stored;
        });
    if (text.empty() && isRenamed)
      text =
          "the step's '" + names.front() + "' is '" + stored + "' in " + path;
    DType found = read(matches[t].places.front()).dtype;
    // A packed matrix of a file stays as it is.
    if (isPacked && !isSummable(found))
      continue;
    if (found != dtype && !(hasMaster && found == DType::F32) &&
        counted.insert(stored).second)
      ++converted[{found, dtype}];
  }
  std::vector<std::string> notes;
  for (const std::string &text : {renamed, copied})
    if (!text.empty())
      notes.push_back(text);
  for (const auto &[types, count] : converted)
    notes.push_back(path + " has " + tensorsOf(count) + " in " +
                    name(types.first) + ", converted to the step's " +
                    name(types.second));
  for (std::string &note : notesOnChoices(file))
    notes.push_back(std::move(note));
  return notes;
}

std::vector<std::string> MatchedWeights::notesOnChoices(size_t file) const {
  const std::string &path = files[file].source->path();
  std::set<std::string> shared;
  std::vector<std::string> given;
  for (size_t t = 0; t < wanted.size(); ++t) {
    for (const WeightPlace &place : matches[t].others)
      if (place.file == file && !used.contains(place))
        shared.insert(place.name);
    if (!matches[t].places.empty() && matches[t].places.front().file == file)
      given.push_back(wanted[t].names.front());
  }
  std::vector<std::string> notes, unused;
  bool hasOther = std::any_of(files.begin(), files.end(), [](const auto &one) {
    return !one.source->isArchive();
  });
  const bool isFallback = files[file].source->isArchive() && hasOther;
  if (isFallback && !given.empty())
    notes.push_back(path + ", an archive, gives " + tensorsOf(given.size()) +
                    " that no other file has: " + listOf(given));
  if (!shared.empty())
    notes.push_back(path + " has " + tensorsOf(shared.size()) +
                    " for which another file has a more specific name: " +
                    listOf({shared.begin(), shared.end()}));
  for (std::string &name : unusedOf(file))
    if (!isFallback && !shared.contains(name))
      unused.push_back(std::move(name));
  if (!unused.empty())
    notes.push_back(path + " has " + tensorsOf(unused.size()) +
                    " that the step has not: " + listOf(unused));
  return notes;
}

} // namespace fcdp
