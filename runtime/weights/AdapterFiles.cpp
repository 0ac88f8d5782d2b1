// SPDX-License-Identifier: Apache-2.0
#include "weights/AdapterFiles.h"
#include "files/FileErrors.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace fcdp {

namespace {

namespace fs = std::filesystem;

bool isThere(const fs::path &path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Returns whether the file, or its folder, has a name that PEFT uses.
bool isNamedAsAdapter(const fs::path &path) {
  return path.filename().string().starts_with("adapter_model") ||
         (isThere(path / "adapter_config.json") &&
          !isThere(path / "config.json"));
}

/// Returns whether all names have the form in which PEFT stores them, and none
/// has the form of a model with adapters.
bool hasNamesOfAdapter(const std::vector<std::string> &names) {
  return !names.empty() &&
         std::all_of(names.begin(), names.end(), [](const auto &name) {
           TensorName parsed = parseTensorName(name);
           return parsed.adapter.empty() &&
                  (parsed.kind == TensorKind::Adapter ||
                   (parsed.kind == TensorKind::Base &&
                    name.starts_with("base_model.model.")));
         });
}

std::set<std::string> adaptersOf(const std::vector<TensorNames> &wanted) {
  std::set<std::string> adapters;
  for (const TensorNames &names : wanted)
    for (const std::string &name : names)
      adapters.insert(parseTensorName(name).adapter);
  adapters.erase("");
  return adapters;
}

/// Returns the outermost modules of the step.
std::set<std::string> modulesOf(const std::vector<TensorNames> &wanted) {
  std::set<std::string> modules;
  for (const TensorNames &names : wanted)
    for (const std::string &name : names)
      if (size_t dot = name.find('.'); dot != std::string::npos)
        modules.insert(name.substr(0, dot));
  return modules;
}

/// Returns whether a tensor of the step has a name with this prefix.
bool isPrefix(const std::string &prefix,
              const std::vector<TensorNames> &wanted) {
  auto hasIt = [&](const std::string &name) {
    return name.starts_with(prefix);
  };
  return std::any_of(wanted.begin(), wanted.end(), [&](const auto &names) {
    return std::any_of(names.begin(), names.end(), hasIt);
  });
}

/// Returns, for example, "'a', 'b'".
std::string quoteAll(const std::set<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

std::string nameOfFolder(const std::string &path) {
  fs::path whole = fs::path(path).lexically_normal();
  std::error_code error;
  if (!fs::is_directory(whole, error))
    whole = whole.parent_path();
  return whole.filename().empty() ? whole.parent_path().filename().string()
                                  : whole.filename().string();
}

/// Sets whether the file is an adapter's, and the adapter if that is known:
/// `name`, if it is given, or the name of the folder.
void setAdapter(GivenWeights &weights, const std::string &name,
                const std::string &path,
                const std::set<std::string> &adapters) {
  WeightOrigin &origin = weights.origin;
  origin.isAdapter = !weights.source->isArchive() &&
                     (!name.empty() || isNamedAsAdapter(path) ||
                      hasNamesOfAdapter(weights.source->names()));
  origin.adapter = name;
  if (std::string folder = nameOfFolder(path);
      origin.isAdapter && name.empty() && adapters.contains(folder))
    origin.adapter = folder;
}

/// Assigns the files of adapters without a name to the only adapter that is
/// left.
void nameTheRest(std::vector<GivenWeights> &all,
                 std::set<std::string> adapters) {
  for (const GivenWeights &one : all)
    adapters.erase(one.origin.adapter);
  if (adapters.size() == 1)
    for (GivenWeights &one : all)
      if (one.origin.isAdapter && one.origin.adapter.empty())
        one.origin.adapter = *adapters.begin();
}

} // namespace

std::string pathOfWeights(const std::string &given) {
  size_t equals = given.find('=');
  return equals == std::string::npos || isThere(given)
             ? given
             : given.substr(equals + 1);
}

std::string adviceOnForm(const std::string &path,
                         const std::string &direction) {
  if (!isThere(fs::path(path) / "config.json"))
    return "";
  const bool isRead = direction == "to-model";
  return std::string("; if Transformers stores it in another form, ") +
         (isRead ? "convert it first (fcdp-ckpt convert " + path + " NEW"
                 : "write all and convert that (fcdp-ckpt convert OUT NEW "
                   "--config=" +
                       path + "/config.json") +
         " --to=hf --transformers=" + direction + ")";
}

std::vector<GivenWeights> openGiven(const std::vector<std::string> &given,
                                    const std::vector<TensorNames> &wanted) {
  const std::set<std::string> adapters = adaptersOf(wanted);
  std::vector<GivenWeights> all;
  for (const std::string &one : given) {
    const std::string path = pathOfWeights(one);
    std::string name = one.substr(0, one.size() - path.size());
    if (!name.empty())
      name.pop_back();
    WeightOrigin origin;
    if (!name.empty() && !adapters.contains(name)) {
      origin.module = name + (name.ends_with('.') ? "" : ".");
      if (!isPrefix(origin.module, wanted))
        throwAt(one,
                "expected the name of an adapter of the step (" +
                    (adapters.empty() ? "it has none" : quoteAll(adapters)) +
                    ") or of a module with weights (" +
                    quoteAll(modulesOf(wanted)) + "), got '" + name + "'");
      name.clear();
    }
    GivenWeights weights{openWeights(path), std::move(origin)};
    setAdapter(weights, name, path, adapters);
    all.push_back(std::move(weights));
  }
  nameTheRest(all, adapters);
  return all;
}

} // namespace fcdp
