// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Profile.h"

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Support/InputFile.h"
#include "fcdp/Support/JsonFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace fcdp;

static constexpr int64_t kVersion = 1;
static constexpr llvm::StringLiteral kAxes[] = {"node", "local", "world"};
static constexpr llvm::StringLiteral kOthers[] = {
    "cache_store",  "cache_load",     "cast",
    "pack",         "accumulate",     "add",
    "shard_update", "clip_gradients", "unscale_gradients"};

namespace {
class ProfileReader {
public:
  explicit ProfileReader(llvm::MemoryBufferRef text) : json(text) {}
  llvm::Expected<Profile> read();

private:
  bool readMember(const JsonMember &member);
  bool readVersion(const Json &value);
  bool readOperator(const Json &value);
  bool readOperation(const Json &value);
  bool require(const Json &object, llvm::ArrayRef<llvm::StringLiteral> names);

  JsonFile json;
  Profile profile;
  int64_t steps = 0;
};
} // namespace

template <typename Names>
static std::string list(const Names &names) {
  return "'" + llvm::join(std::begin(names), std::end(names), "', '") + "'";
}

bool ProfileReader::require(const Json &object,
                            llvm::ArrayRef<llvm::StringLiteral> names) {
  return llvm::all_of(names, [&](llvm::StringRef name) {
    return !object[name].isNull() ||
           json.fail(object, "expected a member '" + name + "'");
  });
}

bool ProfileReader::readVersion(const Json &value) {
  int64_t version = 0;
  if (!json.readInteger(value, version, 0))
    return false;
  return version == kVersion ||
         json.fail(value,
                   "expected version " + llvm::Twine(kVersion) + ", got " +
                       llvm::Twine(version) +
                       "; make the profile with the fcdp-run of this fcdp");
}

bool ProfileReader::readOperator(const Json &value) {
  llvm::StringRef key;
  double seconds = 0;
  int64_t calls = 0;
  if (!json.readObject(value,
                       [&](const JsonMember &member) {
                         if (member.name == "operator")
                           return json.readString(member.value, key);
                         if (member.name == "calls")
                           return json.readInteger(member.value, calls, 1);
                         if (member.name == "seconds")
                           return json.readPositive(member.value, seconds);
                         return json.failUnknown(
                             member, "'operator', 'calls', 'seconds'");
                       }) ||
      !require(value, {"operator", "seconds"}))
    return false;
  return profile.operators.try_emplace(key, seconds).second ||
         json.fail(value, "expected '" + key + "' once");
}

bool ProfileReader::readOperation(const Json &value) {
  llvm::StringRef kind, axis;
  double seconds = 0;
  int64_t bytes = 0, calls = 0;
  if (!json.readObject(value,
                       [&](const JsonMember &member) {
                         if (member.name == "kind")
                           return json.readString(member.value, kind);
                         if (member.name == "axis")
                           return json.readString(member.value, axis);
                         if (member.name == "bytes")
                           return json.readInteger(member.value, bytes, 0);
                         if (member.name == "calls")
                           return json.readInteger(member.value, calls, 1);
                         if (member.name == "seconds")
                           return json.readPositive(member.value, seconds);
                         return json.failUnknown(
                             member,
                             "'kind', 'axis', 'bytes', 'calls', 'seconds'");
                       }) ||
      !require(value, {"kind", "bytes", "seconds"}))
    return false;
  std::string key = kind.str();
  if (llvm::is_contained(getCollectiveNames(), kind)) {
    if (!llvm::is_contained(kAxes, axis))
      return json.fail(value, "expected the 'axis' of '" + kind +
                                  "' to be one of " + list(kAxes) + ", got '" +
                                  axis + "'");
    key += (" " + axis).str();
  } else if (!llvm::is_contained(kOthers, kind)) {
    return json.fail(value, "expected 'kind' to be one of " +
                                list(getCollectiveNames()) + ", " +
                                list(kOthers) + ", got '" + kind + "'");
  } else if (!axis.empty()) {
    return json.fail(value, "expected no 'axis' of '" + kind + "'");
  }
  Profile::Curve &curve = profile.operations[key];
  double size = bytes;
  if (llvm::any_of(curve, [&](const Profile::Point &point) {
        return point.bytes == size;
      }))
    return json.fail(value, "expected '" + key + "' of " + llvm::Twine(bytes) +
                                " bytes once");
  curve.push_back({size, seconds});
  return true;
}

bool ProfileReader::readMember(const JsonMember &member) {
  const auto &[name, value] = member;
  if (name == "version")
    return readVersion(value);
  if (name == "nodes")
    return json.readInteger(value, profile.nodes, 1);
  if (name == "ranks_per_node")
    return json.readInteger(value, profile.ranksPerNode, 1);
  if (name == "steps")
    return json.readInteger(value, steps, 0);
  if (name == "operators")
    return json.readArray(value,
                          [&](const Json &op) { return readOperator(op); });
  if (name == "operations")
    return json.readArray(value,
                          [&](const Json &op) { return readOperation(op); });
  return json.failUnknown(member, "'version', 'nodes', 'ranks_per_node', "
                                  "'steps', 'operators', 'operations'");
}

llvm::Expected<Profile> ProfileReader::read() {
  bool isRead = json.read([&](const Json &root) {
    return json.readObject(root, [&](const JsonMember &member) {
      return readMember(member);
    }) && require(root, {"version", "nodes", "ranks_per_node"});
  });
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
  auto text = readInputFile(file);
  if (!text)
    return llvm::createStringError("cannot read '" + file +
                                   "': " + toString(text.takeError()));
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
