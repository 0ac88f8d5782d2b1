// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Support/Json.h"

using namespace llvm;
using namespace fcdp;

// An export has millions of values, so they must be small.
static_assert(sizeof(Json) == 16);

Json Json::boolean(bool value) {
  Json json(Kind::Boolean, 0);
  json.truth = value;
  return json;
}

Json Json::integer(int64_t value) {
  Json json(Kind::Integer, 0);
  json.whole = value;
  return json;
}

Json Json::number(double value) {
  Json json(Kind::Number, 0);
  json.real = value;
  return json;
}

Json Json::string(StringRef value) {
  Json json(Kind::String, value.size());
  json.text = value.data();
  return json;
}

Json Json::array(ArrayRef<Json> values) {
  Json json(Kind::Array, values.size());
  json.values = values.data();
  return json;
}

Json Json::object(ArrayRef<JsonMember> members) {
  Json json(Kind::Object, members.size());
  json.pairs = members.data();
  return json;
}

std::optional<bool> Json::asBoolean() const {
  if (kind != Kind::Boolean)
    return std::nullopt;
  return truth;
}

std::optional<int64_t> Json::asInteger() const {
  if (kind != Kind::Integer)
    return std::nullopt;
  return whole;
}

std::optional<double> Json::asNumber() const {
  if (kind == Kind::Integer)
    return static_cast<double>(whole);
  if (kind != Kind::Number)
    return std::nullopt;
  return real;
}

std::optional<StringRef> Json::asString() const {
  if (kind != Kind::String)
    return std::nullopt;
  return StringRef(text, size);
}

ArrayRef<Json> Json::elements() const {
  if (kind != Kind::Array)
    return {};
  return ArrayRef(values, size);
}

ArrayRef<JsonMember> Json::members() const {
  if (kind != Kind::Object)
    return {};
  return ArrayRef(pairs, size);
}

const Json &Json::operator[](StringRef name) const {
  static const Json null{};
  for (const JsonMember &member : members())
    if (member.name == name)
      return member.value;
  return null;
}
