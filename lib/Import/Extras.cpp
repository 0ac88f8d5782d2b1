// SPDX-License-Identifier: Apache-2.0

#include "Extras.h"

#include "Archive.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace fcdp;
using namespace fcdp::pt2;

static constexpr int64_t kVersion = 1;

static std::string unitFromName(StringRef parameter) {
  StringRef rest = parameter;
  while (!rest.empty()) {
    auto [component, next] = rest.split('.');
    if (!component.empty() && all_of(component, isDigit))
      return parameter.take_front(component.end() - parameter.begin()).str();
    rest = next;
  }
  return parameter.contains('.') ? parameter.rsplit('.').first.str() : "";
}

std::string Extras::getUnit(StringRef parameter) const {
  for (StringRef path = parameter;; path = path.rsplit('.').first) {
    if (units.contains(path))
      return path.str();
    if (!path.contains('.'))
      break;
  }
  return units.contains("") ? "" : unitFromName(parameter);
}

Expected<Extras> fcdp::pt2::readExtras(StringRef text) {
  BumpPtrAllocator arena;
  Expected<Json> json = parseJson(text, arena);
  if (!json)
    return makeError("in 'extra/fcdp.json': " + toString(json.takeError()));
  std::optional<int64_t> version = (*json)["fcdp"].asInteger();
  if (version != kVersion)
    return makeError("expected version " + Twine(kVersion) +
                     " of 'extra/fcdp.json', got " +
                     (version ? Twine(*version) : Twine("none")));
  Extras extras;
  for (const JsonMember &tie : (*json)["ties"].members()) {
    std::optional<StringRef> root = tie.value.asString();
    if (!root)
      return makeError("in 'extra/fcdp.json': expected the name of a parameter "
                       "that '" +
                       tie.name + "' is tied to");
    extras.ties.push_back({tie.name.str(), root->str()});
  }
  for (const Json &unit : (*json)["units"].elements()) {
    std::optional<StringRef> path = unit.asString();
    if (!path)
      return makeError(
          "in 'extra/fcdp.json': expected units to be module paths");
    extras.units.insert(*path);
  }
  return extras;
}
