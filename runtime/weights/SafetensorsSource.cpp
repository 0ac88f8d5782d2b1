// SPDX-License-Identifier: Apache-2.0
//
// Reads safetensors files.
#include "files/FileErrors.h"
#include "files/Json.h"
#include "files/MappedFile.h"
#include "weights/SafetensorsFormat.h"
#include "weights/WeightSource.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace fcdp {

namespace {

class SafetensorsSource final : public WeightSource {
public:
  SafetensorsSource(const std::string &path,
                    std::shared_ptr<const MappedFile> mapped)
      : filePath(path), file(std::move(mapped)) {
    try {
      readHeader();
      checkPlaces();
    } catch (const std::exception &error) {
      file->requireWhole();
      throwAt(path, error.what());
    }
  }

  const std::string &path() const override { return filePath; }
  std::optional<StoredTensor> find(const std::string &name) override;
  std::vector<std::string> names() const override;
  void dropPages() override { file->dropPages(); }

private:
  void readHeader();
  void readTensor(const std::string &name, const JsonNode &node,
                  std::span<const std::byte> data);
  void checkPlaces() const;

  std::string filePath;
  std::shared_ptr<const MappedFile> file;
  std::map<std::string, StoredTensor> tensors;
  /// The place of a tensor's data, also for unknown types.
  struct Place {
    int64_t begin, end;
    std::string name;
  };
  std::vector<Place> places;
  /// Alternative names of tensors, which safetensors' save_model puts in the
  /// metadata.
  std::map<std::string, std::string> aliases;
};

void SafetensorsSource::readHeader() {
  std::span<const std::byte> bytes = file->bytes();
  size_t headerBytes = safetensorsHeaderBytes(bytes);
  constexpr size_t before = sizeof(uint64_t);
  auto *text = reinterpret_cast<const char *>(bytes.data()) + before;
  nlohmann::json value = parseJson({text, headerBytes - before});
  JsonNode header(value, "header");
  auto data = bytes.subspan(headerBytes);
  header.forEachMember([&](std::string_view name, const JsonNode &node) {
    if (name != "__metadata__")
      return readTensor(std::string(name), node, data);
    node.forEachMember([&](std::string_view alias, const JsonNode &target) {
      aliases.emplace(alias, target.text());
    });
  });
}

void SafetensorsSource::readTensor(const std::string &name,
                                   const JsonNode &node,
                                   std::span<const std::byte> data) {
  auto dtype = fromSafetensorsName(node.at("dtype").text());
  std::vector<int64_t> range = node.at("data_offsets").integers(0);
  if (range.size() != 2 || range[0] > range[1])
    node.at("data_offsets").expected("a begin and an end");
  if (uint64_t(range[1]) > data.size())
    node.at("data_offsets")
        .fail("'" + name + "' ends at byte " + std::to_string(range[1]) +
              " of " + std::to_string(data.size()) +
              "; is the file truncated?");
  places.push_back({range[0], range[1], name});
  if (!dtype)
    return;
  StoredTensor tensor;
  tensor.dtype = *dtype;
  tensor.shape = node.at("shape").integers(0);
  checkShape(tensor.shape);
  tensor.strides = contiguousStrides(tensor.shape);
  int64_t bytes = numElements(tensor.shape) * int64_t(byteSize(*dtype));
  if (range[1] - range[0] != bytes)
    node.at("data_offsets")
        .expected(std::to_string(bytes) + " bytes for " +
                  toString(tensor.shape));
  tensor.storage = data.subspan(range[0], range[1] - range[0]);
  tensor.owner = file;
  tensors.emplace(name, std::move(tensor));
}

/// Refuses two tensors that share a byte, which the format does not allow.
void SafetensorsSource::checkPlaces() const {
  std::vector<const Place *> order;
  for (const Place &place : places)
    if (place.begin != place.end)
      order.push_back(&place);
  std::sort(order.begin(), order.end(),
            [](const Place *a, const Place *b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->begin < order[i - 1]->end)
      throw std::runtime_error("expected tensors with bytes of their own, got "
                               "'" +
                               order[i - 1]->name + "' and '" + order[i]->name +
                               "', which overlap at byte " +
                               std::to_string(order[i]->begin) +
                               " of the data; is the file damaged?");
}

std::optional<StoredTensor> SafetensorsSource::find(const std::string &name) {
  auto found = tensors.find(name);
  if (found == tensors.end())
    if (auto alias = aliases.find(name); alias != aliases.end())
      found = tensors.find(alias->second);
  if (found == tensors.end())
    return std::nullopt;
  return found->second;
}

std::vector<std::string> SafetensorsSource::names() const {
  std::vector<std::string> all;
  for (const auto &[name, tensor] : tensors)
    all.push_back(name);
  for (const auto &[alias, name] : aliases)
    if (tensors.contains(name) && !tensors.contains(alias))
      all.push_back(alias);
  return all;
}

} // namespace

std::unique_ptr<WeightSource> openSafetensors(const std::string &path) {
  return openSafetensors(path, std::make_shared<MappedFile>(path));
}

std::unique_ptr<WeightSource>
openSafetensors(const std::string &path,
                std::shared_ptr<const MappedFile> file) {
  return std::make_unique<SafetensorsSource>(path, std::move(file));
}

} // namespace fcdp
