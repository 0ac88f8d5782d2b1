// SPDX-License-Identifier: Apache-2.0
//
// Reads the weights and constants of a .pt2 archive (torch.export.save).
#include "files/FileErrors.h"
#include "files/Json.h"
#include "weights/TorchArchive.h"
#include "weights/WeightSource.h"

#include <map>
#include <stdexcept>

namespace fcdp {

namespace {

/// Converts the archive's numbers of types, which are not c10's.
std::optional<DType> dtypeOf(int64_t scalarType) {
  switch (scalarType) {
  case 1:
    return DType::U8;
  case 2:
    return DType::I8;
  case 3:
    return DType::I16;
  case 4:
    return DType::I32;
  case 5:
    return DType::I64;
  case 6:
    return DType::F16;
  case 7:
    return DType::F32;
  case 8:
    return DType::F64;
  case 10:
    return DType::C64;
  case 11:
    return DType::C128;
  case 12:
    return DType::Bool;
  case 13:
    return DType::BF16;
  default:
    return std::nullopt;
  }
}

int64_t readSize(const JsonNode &symInt) {
  constexpr int64_t greatest = int64_t(1) << 56;
  if (!symInt.has("as_int"))
    symInt.expected("a static size ('as_int')");
  return symInt.at("as_int").integer(0, greatest);
}

std::vector<int64_t> readSizes(const JsonNode &list) {
  std::vector<int64_t> sizes;
  list.forEach([&](const JsonNode &size) { sizes.push_back(readSize(size)); });
  return sizes;
}

struct Payload {
  std::string entry;
  bool isPickle;
  /// The tensor without its storage; none if its type does not exist here.
  std::optional<StoredTensor> tensor;
};

Payload readPayload(const JsonNode &node, const std::string &folder) {
  Payload payload;
  payload.entry = folder + node.at("path_name").text();
  payload.isPickle = node.at("use_pickle").boolean();
  if (payload.isPickle || node.isNull("tensor_meta"))
    return payload;
  JsonNode meta = node.at("tensor_meta");
  auto dtype = dtypeOf(meta.at("dtype").integer());
  if (!dtype)
    return payload;
  StoredTensor tensor;
  tensor.dtype = *dtype;
  tensor.shape = readSizes(meta.at("sizes"));
  checkShape(tensor.shape);
  tensor.strides = readSizes(meta.at("strides"));
  if (tensor.strides.size() != tensor.shape.size())
    meta.at("strides").expected("one stride per size");
  tensor.offset = readSize(meta.at("storage_offset"));
  payload.tensor = tensor;
  return payload;
}

class Pt2Source final : public WeightSource {
public:
  explicit Pt2Source(const std::string &path) : archive(path) {
    root = findRoot();
    bool any = readConfig("weights");
    for (const auto &[name, payload] : payloads)
      weights.push_back(name);
    any |= readConfig("constants");
    if (!any)
      fail("expected data/weights/model_weights_config.json, got an archive "
           "without it; save it with torch.export.save or fcdp.export");
  }

  const std::string &path() const override { return archive.path(); }
  bool isArchive() const override { return true; }
  std::optional<StoredTensor> find(const std::string &name) override;
  std::vector<std::string> names() const override { return weights; }
  void dropPages() override { archive.dropPages(); }

private:
  [[noreturn]] void fail(const std::string &message) const {
    throwAt(path(), message);
  }
  /// Returns the folder of all entries: empty, or with a slash at its end.
  std::string findRoot();
  bool readConfig(const std::string &part);
  void loadStorage(const std::string &name, const Payload &payload);

  TorchArchive archive;
  std::string root;
  std::map<std::string, Payload> payloads;
  std::vector<std::string> weights;
  /// The storage read last: several names often share one.
  std::string storageEntry;
  std::span<const std::byte> storage;
};

std::string Pt2Source::findRoot() {
  constexpr std::string_view marker = "archive_format";
  std::optional<std::string> root;
  for (const std::string &name : archive.records()) {
    if (name != marker && !name.ends_with("/archive_format"))
      continue;
    std::string folder = name.substr(0, name.size() - marker.size());
    // The shallowest folder counts, because a model may contain a file of that
    // name.
    if (!root || folder.size() < root->size())
      root = folder;
  }
  if (!root)
    fail("expected a .pt2 archive, got a zip file without 'archive_format'");
  return *root;
}

bool Pt2Source::readConfig(const std::string &part) {
  std::string folder = root + "data/" + part + "/";
  std::string entry = folder + "model_" + part + "_config.json";
  auto text = archive.readText(entry);
  if (!text)
    return false;
  try {
    nlohmann::json value = parseJson(*text);
    JsonNode top(value, entry);
    top.at("config").forEachMember(
        [&](std::string_view name, const JsonNode &node) {
          payloads.emplace(name, readPayload(node, folder));
        });
  } catch (const std::exception &error) {
    fail(error.what());
  }
  return true;
}

void Pt2Source::loadStorage(const std::string &name, const Payload &payload) {
  if (storageEntry == payload.entry)
    return;
  auto bytes = archive.read(payload.entry);
  if (!bytes)
    fail("'" + name + "': expected the entry '" + payload.entry +
         "', got none; the archive is damaged");
  storage = *bytes;
  storageEntry = payload.entry;
}

std::optional<StoredTensor> Pt2Source::find(const std::string &name) {
  auto found = payloads.find(name);
  if (found == payloads.end())
    return std::nullopt;
  const Payload &payload = found->second;
  if (payload.isPickle)
    fail("'" + name + "' is pickled, which is not read; save plain tensors");
  if (!payload.tensor)
    fail("'" + name + "' has a type that fcdp does not know");
  loadStorage(name, payload);
  StoredTensor tensor = *payload.tensor;
  tensor.storage = storage;
  tensor.owner = archive.owner();
  if (storage.empty() && numElements(tensor.shape) != 0)
    fail("'" + name +
         "' has no weights: exported without data; give "
         "--weights a file with values");
  try {
    checkBounds(tensor);
  } catch (const std::runtime_error &error) {
    fail("'" + name + "': " + error.what());
  }
  return tensor;
}

} // namespace

std::unique_ptr<WeightSource> openPt2(const std::string &path) {
  return std::make_unique<Pt2Source>(path);
}

} // namespace fcdp
