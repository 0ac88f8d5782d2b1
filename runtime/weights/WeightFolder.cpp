// SPDX-License-Identifier: Apache-2.0
//
// Reads a folder of safetensors files, as Hugging Face's models are stored.
#include "files/FileErrors.h"
#include "files/Json.h"
#include "files/ReplacedFile.h"
#include "weights/WeightSource.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

namespace fcdp {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnd = ".safetensors.index.json";

class WeightFolder final : public WeightSource {
public:
  explicit WeightFolder(const std::string &path) : folder(path) {
    std::vector<std::string> indexes = filesThatEnd(kIndexEnd);
    if (indexes.size() > 1)
      throwAt(path, "expected one index of weights, got " + indexes[0] +
                        " and " + indexes[1] + "; name the file to read");
    if (indexes.empty())
      openAll();
    else
      openIndex(path + "/" + indexes[0]);
  }

  const std::string &path() const override { return folder; }
  std::optional<StoredTensor> find(const std::string &name) override {
    auto found = fileOf.find(name);
    return found == fileOf.end() ? std::nullopt
                                 : files[found->second]->find(name);
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto &[name, file] : fileOf)
      all.push_back(name);
    return all;
  }
  void dropPages() override {
    for (const auto &file : files)
      file->dropPages();
  }

private:
  /// Returns the names of the folder's files with this end, sorted.
  std::vector<std::string> filesThatEnd(std::string_view end) const;
  void openIndex(const std::string &index);
  void openAll();

  std::string folder;
  std::vector<std::unique_ptr<WeightSource>> files;
  std::map<std::string, size_t> fileOf;
};

std::vector<std::string>
WeightFolder::filesThatEnd(std::string_view end) const {
  std::vector<std::string> found;
  std::error_code error;
  fs::directory_iterator entries(folder, error);
  if (error)
    throwAt(folder, "cannot be listed: " + error.message());
  for (const fs::directory_entry &entry : entries)
    if (std::string name = entry.path().filename(); name.ends_with(end))
      found.push_back(name);
  std::sort(found.begin(), found.end());
  return found;
}

/// Reads {"weight_map": {"name": "file", ...}}.
std::map<std::string, std::string> readWeightMap(const std::string &index) {
  std::map<std::string, std::string> files;
  if (isStream(index))
    throwAt(index, "expected a file, got something else");
  std::ifstream stream(index, std::ios::binary);
  try {
    std::string text{std::istreambuf_iterator<char>(stream), {}};
    nlohmann::json value = parseJson(text);
    JsonNode(value, "index")
        .at("weight_map")
        .forEachMember([&](std::string_view name, const JsonNode &node) {
          if (fs::path(node.text()).filename() != node.text())
            node.expected("the name of a file in the same folder");
          files.emplace(name, node.text());
        });
  } catch (const std::exception &error) {
    throwAt(index, error.what());
  }
  return files;
}

void WeightFolder::openIndex(const std::string &index) {
  std::map<std::string, size_t> numbers;
  for (const auto &[name, file] : readWeightMap(index)) {
    auto [it, isNew] = numbers.emplace(file, files.size());
    if (isNew)
      files.push_back(openSafetensors(folder + "/" + file));
    fileOf.emplace(name, it->second);
  }
}

void WeightFolder::openAll() {
  if (fs::exists(fs::path(folder) / "index.json"))
    throwAt(folder, "expected a folder of weights, got a checkpoint; resume "
                    "from it, or make weights of it (fcdp-ckpt convert " +
                        folder + " weights.safetensors --to=safetensors)");
  for (const std::string &file : filesThatEnd(".safetensors")) {
    files.push_back(openSafetensors(folder + "/" + file));
    for (const std::string &name : files.back()->names())
      if (!fileOf.emplace(name, files.size() - 1).second)
        throwAt(folder, "'" + name + "' is in " + file +
                            " and in another file, and there is no index; "
                            "name the file to read");
  }
  if (files.empty())
    throwAt(folder, "expected a folder with safetensors files, got none");
}

} // namespace

std::unique_ptr<WeightSource> openWeightFolder(const std::string &path) {
  return std::make_unique<WeightFolder>(path);
}

} // namespace fcdp
