// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Profile.h"

#include "fcdp/Support/JsonReader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace fcdp;

static constexpr int64_t kVersion = 1;
static constexpr llvm::StringLiteral kCollectives[] = {"all_gather",
                                                       "reduce_scatter"};
static constexpr llvm::StringLiteral kAxes[] = {"node", "local", "world"};
static constexpr llvm::StringLiteral kOthers[] = {
    "cache_store", "cache_load", "cast",         "pack",
    "accumulate",  "add",        "shard_update", "clip_gradients"};

namespace {
class ProfileReader {
public:
  explicit ProfileReader(llvm::MemoryBufferRef text) : json(text) {}
  llvm::Expected<Profile> read();

private:
  bool readMember(llvm::StringRef name);
  bool readVersion();
  bool readOperator();
  bool readOperation();
  bool require(bool isThere, llvm::StringRef name);

  JsonReader json;
  Profile profile;
  int64_t version = 0, steps = 0;
};
} // namespace

static std::string list(llvm::ArrayRef<llvm::StringLiteral> names) {
  return "'" + llvm::join(names, "', '") + "'";
}

bool ProfileReader::require(bool isThere, llvm::StringRef name) {
  return isThere || json.fail("expected a member '" + name + "'");
}

bool ProfileReader::readVersion() {
  if (!json.readInteger(version, 0))
    return false;
  return version == kVersion ||
         json.fail("expected version " + llvm::Twine(kVersion) + ", got " +
                   llvm::Twine(version) +
                   "; make the profile with the fcdp-run of this fcdp");
}

bool ProfileReader::readOperator() {
  std::string key;
  double seconds = -1;
  int64_t calls = 0;
  if (!json.readObject([&](llvm::StringRef name) {
        if (name == "operator")
          return json.readString(key);
        if (name == "calls")
          return json.readInteger(calls, 1);
        if (name == "seconds")
          return json.readPositive(seconds);
        return json.failUnknown(name, "'operator', 'calls', 'seconds'");
      }) ||
      !require(!key.empty(), "operator") || !require(seconds >= 0, "seconds"))
    return false;
  return profile.operators.try_emplace(key, seconds).second ||
         json.fail("expected '" + key + "' once");
}

bool ProfileReader::readOperation() {
  std::string kind, axis;
  double seconds = -1;
  int64_t bytes = -1, calls = 0;
  if (!json.readObject([&](llvm::StringRef name) {
        if (name == "kind")
          return json.readString(kind);
        if (name == "axis")
          return json.readString(axis);
        if (name == "bytes")
          return json.readInteger(bytes, 0);
        if (name == "calls")
          return json.readInteger(calls, 1);
        if (name == "seconds")
          return json.readPositive(seconds);
        return json.failUnknown(name,
                                "'kind', 'axis', 'bytes', 'calls', 'seconds'");
      }) ||
      !require(!kind.empty(), "kind") || !require(bytes >= 0, "bytes") ||
      !require(seconds >= 0, "seconds"))
    return false;
  if (llvm::is_contained(kCollectives, kind)) {
    if (!llvm::is_contained(kAxes, axis))
      return json.fail("expected the 'axis' of '" + kind + "' to be one of " +
                       list(kAxes) + ", got '" + axis + "'");
    kind += " " + axis;
  } else if (!llvm::is_contained(kOthers, kind)) {
    return json.fail("expected 'kind' to be one of " + list(kCollectives) +
                     ", " + list(kOthers) + ", got '" + kind + "'");
  } else if (!axis.empty()) {
    return json.fail("expected no 'axis' of '" + kind + "'");
  }
  Profile::Curve &curve = profile.operations[kind];
  double size = bytes;
  if (llvm::any_of(curve, [&](const Profile::Point &point) {
        return point.bytes == size;
      }))
    return json.fail("expected '" + kind + "' of " + llvm::Twine(bytes) +
                     " bytes once");
  curve.push_back({size, seconds});
  return true;
}

bool ProfileReader::readMember(llvm::StringRef name) {
  if (name == "version")
    return readVersion();
  if (name == "nodes")
    return json.readInteger(profile.nodes, 1);
  if (name == "ranks_per_node")
    return json.readInteger(profile.ranksPerNode, 1);
  if (name == "steps")
    return json.readInteger(steps, 0);
  if (name == "operators")
    return json.readArray([&] { return readOperator(); });
  if (name == "operations")
    return json.readArray([&] { return readOperation(); });
  return json.failUnknown(name, "'version', 'nodes', 'ranks_per_node', "
                                "'steps', 'operators', 'operations'");
}

llvm::Expected<Profile> ProfileReader::read() {
  bool isRead =
      json.readObject([&](llvm::StringRef name) { return readMember(name); }) &&
      json.atEnd() && require(version != 0, "version") &&
      require(profile.nodes != 0, "nodes") &&
      require(profile.ranksPerNode != 0, "ranks_per_node");
  if (!isRead)
    return json.takeError();
  for (auto &[kind, curve] : profile.operations)
    llvm::sort(curve, [](const Profile::Point &a, const Profile::Point &b) {
      return a.bytes < b.bytes;
    });
  return std::move(profile);
}

llvm::Expected<Profile> fcdp::parseProfile(llvm::MemoryBufferRef text) {
  return ProfileReader(text).read();
}

llvm::Expected<std::shared_ptr<const Profile>>
fcdp::loadProfile(llvm::StringRef file) {
  auto text = llvm::MemoryBuffer::getFile(file, /*IsText=*/true);
  if (!text)
    return llvm::createStringError("cannot read '" + file +
                                   "': " + text.getError().message());
  llvm::Expected<Profile> profile = parseProfile((*text)->getMemBufferRef());
  if (!profile)
    return profile.takeError();
  return std::make_shared<const Profile>(std::move(*profile));
}

double fcdp::readCurve(const Profile::Curve &curve, double bytes,
                       llvm::function_ref<double(double)> estimate) {
  auto next = llvm::lower_bound(
      curve, bytes,
      [](const Profile::Point &point, double x) { return point.bytes < x; });
  if (next != curve.end() && next->bytes == bytes)
    return next->seconds;
  if (next != curve.begin() && next != curve.end()) {
    const Profile::Point &before = *std::prev(next);
    double share = (bytes - before.bytes) / (next->bytes - before.bytes);
    return before.seconds + share * (next->seconds - before.seconds);
  }
  const Profile::Point &nearest =
      next == curve.end() ? curve.back() : curve.front();
  double estimated = estimate(nearest.bytes);
  return estimated > 0 ? estimate(bytes) * (nearest.seconds / estimated)
                       : estimate(bytes);
}
