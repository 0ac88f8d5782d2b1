// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/CheckpointIndex.h"

#include "files/ContentDigest.h"
#include "files/Json.h"
#include "plan/StatePlaces.h"
#include "weights/SafetensorsFormat.h"
#include "weights/StoredTensor.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace fcdp {

const char *checkpointRole(plan::StateRole role) {
  if (role == plan::StateRole::shard)
    return kValueRole;
  return rulesOf(role).isSaved ? plan::EnumNameStateRole(role) : nullptr;
}

namespace {

constexpr const char *kFormat = "fcdp-checkpoint";
/// The first version has no digests.
constexpr int64_t kFirstVersion = 1, kVersion = 2;
constexpr std::string_view kDigestMember = "\"digest\"";
constexpr int64_t kMostRanks = int64_t(1) << 24;

/// Returns whether a checkpoint may have states of that role.
bool isRole(std::string_view role) {
  if (role == kBufferRole || role == kRandomRole)
    return true;
  const auto &values = plan::EnumValuesStateRole();
  return std::any_of(std::begin(values), std::end(values),
                     [&](plan::StateRole of) {
                       const char *saved = checkpointRole(of);
                       return saved && role == saved;
                     });
}

nlohmann::ordered_json toJson(const CheckpointPiece &piece) {
  nlohmann::ordered_json json = {
      {"file", piece.file}, {"offset", piece.offset}, {"length", piece.length}};
  if (piece.rank)
    json["rank"] = *piece.rank;
  if (piece.node)
    json["node"] = *piece.node;
  return json;
}

nlohmann::ordered_json toJson(const CheckpointState &state) {
  nlohmann::ordered_json json = {{"names", state.names},
                                 {"role", state.role},
                                 {"dtype", safetensorsName(state.dtype)},
                                 {"shape", state.shape}};
  if (state.updates)
    json["updates"] = *state.updates;
  if (state.trainable)
    json["trainable"] = *state.trainable;
  if (state.persistent)
    json["persistent"] = *state.persistent;
  if (state.packed)
    json["packed"] = *state.packed;
  json["pieces"] = nlohmann::ordered_json::array();
  for (const CheckpointPiece &piece : state.pieces)
    json["pieces"].push_back(toJson(piece));
  return json;
}

/// Reads one index. Used by one thread.
class IndexParser {
public:
  IndexParser(const JsonNode &root, std::string_view text)
      : root(root), text(text) {}

  CheckpointIndex parse();

private:
  void checkVersion();
  void checkDigest() const;
  void parseFile(const JsonNode &node);
  void parseState(const JsonNode &node);
  void parseNames(const JsonNode &node, CheckpointState &state);
  CheckpointPiece parsePiece(const JsonNode &node, int64_t elements) const;
  void checkCoverage(const JsonNode &node, const CheckpointState &state) const;

  const JsonNode &root;
  const std::string_view text;
  bool hasDigests = false;
  CheckpointIndex index;
  std::set<std::string> fileNames;
  std::set<std::pair<std::string, std::string>> stateNames; ///< role, name
};

void IndexParser::checkVersion() {
  if (root.at("format").text() != kFormat)
    root.at("format").expected(std::string("\"") + kFormat + "\"");
  const int64_t version = root.at("version").integer(1);
  if (version != kVersion && version != kFirstVersion)
    root.at("version").expected("version " + std::to_string(kFirstVersion) +
                                " or " + std::to_string(kVersion) +
                                "; a newer release of fcdp may have written "
                                "it");
  hasDigests = version == kVersion;
  if (hasDigests)
    checkDigest();
  else if (root.has("digest"))
    root.at("digest").fail("expected no digest in version " +
                           std::to_string(version));
}

/// Checks the digest, which is the last member and covers the text before it.
void IndexParser::checkDigest() const {
  const std::string stored = root.at("digest").text();
  const std::string_view before = text.substr(0, text.rfind(kDigestMember));
  std::string_view rest = text.substr(before.size());
  rest = rest.substr(0, rest.find_last_not_of(" \n\r\t") + 1);
  const std::string expected =
      std::string(kDigestMember) + ":\"" + stored + "\"}";
  std::string found;
  for (char c : rest)
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
      found += c;
  if (found != expected)
    root.at("digest").fail("expected it to be the last member");
  const std::string own = contentDigest(std::as_bytes(std::span(before)));
  if (own != stored)
    root.at("digest").fail("expected " + own +
                           ", the digest of the text, got " + stored +
                           "; the index is damaged");
}

CheckpointIndex IndexParser::parse() {
  checkVersion();
  // The limit is that of fcdp-run's --steps; no product with it overflows.
  constexpr int64_t mostSteps = int64_t(1) << 40;
  index.step = root.at("step").integer(0, mostSteps);
  index.worldSize = uint32_t(root.at("world_size").integer(1, kMostRanks));
  index.nodes = uint32_t(root.at("nodes").integer(1, index.worldSize));
  index.planHash = root.at("plan_hash").text();
  if (!root.at("job").raw().is_object())
    root.at("job").expected("an object");
  index.job = root.at("job").raw();
  root.at("files").forEach([&](const JsonNode &node) { parseFile(node); });
  root.at("states").forEach([&](const JsonNode &node) { parseState(node); });
  return std::move(index);
}

void IndexParser::parseFile(const JsonNode &node) {
  std::string name = node.at("name").text();
  bool isPlain = !name.empty() && name != "." && name != ".." &&
                 name.find('/') == name.npos && name.find('\0') == name.npos;
  if (!isPlain)
    node.at("name").expected("the name of a file in the checkpoint's folder");
  if (!fileNames.insert(name).second)
    node.at("name").fail("the file '" + name + "' is listed twice");
  index.files.push_back({name, uint64_t(node.at("bytes").integer(0))});
  if (hasDigests)
    index.files.back().digest = node.at("digest").text();
}

void IndexParser::parseNames(const JsonNode &node, CheckpointState &state) {
  state.role = node.at("role").text();
  if (!isRole(state.role))
    node.at("role").expected("a known role");
  node.at("names").forEach([&](const JsonNode &name) {
    state.names.push_back(name.text());
    if (!stateNames.emplace(state.role, state.names.back()).second)
      name.fail("there are two states " + state.role + "/" +
                state.names.back());
  });
  if (state.names.empty())
    node.at("names").expected("at least one name");
}

CheckpointPiece IndexParser::parsePiece(const JsonNode &node,
                                        int64_t elements) const {
  CheckpointPiece piece;
  piece.file =
      uint32_t(node.at("file").integer(0, int64_t(index.files.size()) - 1));
  piece.offset = node.at("offset").integer(0, elements);
  piece.length = node.at("length").integer(1, elements - piece.offset);
  if (node.has("rank"))
    piece.rank = uint32_t(node.at("rank").integer(0, index.worldSize - 1));
  if (node.has("node"))
    piece.node = uint32_t(node.at("node").integer(0, index.nodes - 1));
  if (piece.rank && piece.node)
    node.fail("expected the piece to belong to a rank or to a node, got both");
  return piece;
}

void IndexParser::checkCoverage(const JsonNode &node,
                                const CheckpointState &state) const {
  // The ranges that pieces cover, by owner. A piece of all ranks has the owner
  // -1.
  std::map<int64_t, std::vector<std::pair<int64_t, int64_t>>> ranges;
  size_t ofNodes = 0;
  for (const CheckpointPiece &piece : state.pieces) {
    ofNodes += piece.node.has_value();
    std::optional<uint32_t> owner = piece.owner();
    ranges[owner ? int64_t(*owner) : -1].emplace_back(
        piece.offset, piece.offset + piece.length);
  }
  int64_t elements = numElements(state.shape);
  if (elements == 0)
    return;
  size_t owners = ranges.count(-1) ? 1
                  : ofNodes        ? index.nodes
                                   : index.worldSize;
  bool isMixed = ofNodes != 0 && ofNodes != state.pieces.size();
  if (isMixed || ranges.size() != owners)
    node.at("pieces").fail(
        "expected pieces of all ranks together, of each of the " +
        std::to_string(index.worldSize) + " ranks, or of each of the " +
        std::to_string(index.nodes) + " nodes, for " + state.role + "/" +
        state.names[0]);
  for (auto &[owner, parts] : ranges) {
    std::sort(parts.begin(), parts.end());
    int64_t end = 0;
    for (const auto &[first, last] : parts) {
      if (first != end)
        node.at("pieces").fail(
            "the pieces of " + state.role + "/" + state.names[0] +
            (first < end ? " overlap" : " have a gap") + " at element " +
            std::to_string(std::min(first, end)));
      end = last;
    }
    if (end != elements)
      node.at("pieces").fail("the pieces of " + state.role + "/" +
                             state.names[0] + " end at element " +
                             std::to_string(end) + " of " +
                             std::to_string(elements));
  }
}

void IndexParser::parseState(const JsonNode &node) {
  CheckpointState state;
  parseNames(node, state);
  auto dtype = fromSafetensorsName(node.at("dtype").text());
  if (!dtype)
    node.at("dtype").expected("a type that safetensors and fcdp have");
  state.dtype = *dtype;
  state.shape = node.at("shape").integers(0);
  try {
    checkShape(state.shape);
  } catch (const std::exception &error) {
    node.at("shape").fail(error.what());
  }
  if (node.has("updates"))
    state.updates = node.at("updates").integer(0);
  if (node.has("trainable"))
    state.trainable = node.at("trainable").boolean();
  if (node.has("persistent"))
    state.persistent = node.at("persistent").boolean();
  if (node.has("packed"))
    state.packed = node.at("packed").text();
  int64_t elements = numElements(state.shape);
  node.at("pieces").forEach([&](const JsonNode &piece) {
    state.pieces.push_back(parsePiece(piece, elements));
  });
  checkCoverage(node, state);
  index.states.push_back(std::move(state));
}

} // namespace

std::string CheckpointIndex::toJson() const {
  nlohmann::ordered_json json = {{"format", kFormat}, {"version", kVersion},
                                 {"step", step},      {"world_size", worldSize},
                                 {"nodes", nodes},    {"plan_hash", planHash},
                                 {"job", job}};
  json["files"] = nlohmann::ordered_json::array();
  for (const CheckpointFile &file : files)
    json["files"].push_back({{"name", file.name},
                             {"bytes", file.bytes},
                             {"digest", file.digest.value_or("")}});
  json["states"] = nlohmann::ordered_json::array();
  for (const CheckpointState &state : states)
    json["states"].push_back(fcdp::toJson(state));
  return sealIndex(json.dump()) + "\n";
}

std::string sealIndex(std::string json) {
  json.back() = ','; // in the place of the brace
  const std::string digest = contentDigest(std::as_bytes(std::span(json)));
  return json.append(kDigestMember).append(":\"" + digest + "\"}");
}

CheckpointIndex parseCheckpointIndex(std::string_view text) {
  nlohmann::json value = parseJson(text);
  JsonNode root(value, "index");
  return IndexParser(root, text).parse();
}

std::string pieceName(const CheckpointState &state,
                      const CheckpointPiece &piece) {
  std::string name =
      state.role + "/" + state.names[0] + "@" + std::to_string(piece.offset);
  if (piece.rank)
    name += "#" + std::to_string(*piece.rank);
  if (piece.node)
    name += "#node" + std::to_string(*piece.node);
  return name;
}

std::string rankFileName(uint32_t rank, uint32_t worldSize) {
  char name[64];
  std::snprintf(name, sizeof(name), "rank-%05u-of-%05u.safetensors", rank,
                worldSize);
  return name;
}

} // namespace fcdp
