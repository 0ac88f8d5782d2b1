// SPDX-License-Identifier: Apache-2.0
#include "files/Json.h"

#include <cmath>
#include <set>
#include <stdexcept>

using nlohmann::json;

namespace fcdp {

namespace {

/// Refuses an object that has a key twice, because readers differ in which
/// value they take. Used by one thread.
class KeyCheck {
public:
  bool operator()(int, json::parse_event_t event, json &parsed) {
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key &&
             !keys.back().insert(parsed.get<std::string>()).second)
      throw std::runtime_error("expected keys that differ, got " +
                               parsed.dump() +
                               " twice in one object; is the file damaged?");
    return true;
  }

private:
  std::vector<std::set<std::string>> keys; ///< of the objects that are open
};

} // namespace

json parseJson(std::string_view text) {
  try {
    // It is passed by reference, because the parser copies its callback.
    KeyCheck check;
    return json::parse(text,
                       [&](int depth, json::parse_event_t event, json &parsed) {
                         return check(depth, event, parsed);
                       });
  } catch (const json::parse_error &error) {
    // The parser's own text may quote any bytes of the file.
    throw std::runtime_error("expected JSON, got text that is wrong at byte " +
                             std::to_string(error.byte) + " of " +
                             std::to_string(text.size()) +
                             "; is the file damaged?");
  }
}

JsonNode JsonNode::at(std::string_view name) const {
  if (!value.is_object())
    expected("an object");
  auto found = value.find(name);
  if (found == value.end())
    fail("the key '" + std::string(name) + "' is missing");
  return {*found, this, name, 0};
}

bool JsonNode::has(std::string_view name) const {
  if (!value.is_object())
    expected("an object");
  return value.contains(name);
}

bool JsonNode::isNull(std::string_view name) const {
  return !has(name) || value.find(name)->is_null();
}

void JsonNode::forEach(
    const std::function<void(const JsonNode &)> &visit) const {
  for (size_t i = 0, end = size(); i < end; ++i)
    visit(at(i));
}

void JsonNode::forEachMember(
    const std::function<void(std::string_view, const JsonNode &)> &visit)
    const {
  if (!value.is_object())
    expected("an object");
  for (auto member = value.begin(); member != value.end(); ++member)
    visit(member.key(), JsonNode(*member, this, member.key(), 0));
}

size_t JsonNode::size() const {
  if (!value.is_array())
    expected("an array");
  return value.size();
}

JsonNode JsonNode::at(size_t position) const {
  if (position >= size())
    expected("at least " + std::to_string(position + 1) + " elements");
  return {value[position], this, "", position};
}

int64_t JsonNode::integer(int64_t least, int64_t greatest) const {
  if (!value.is_number_integer())
    expected("an integer");
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() >
          static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    expected("an integer below 2^63");
  auto number = value.get<int64_t>();
  if (number < least)
    expected("an integer of at least " + std::to_string(least));
  if (number > greatest)
    expected("an integer of at most " + std::to_string(greatest));
  return number;
}

double JsonNode::number() const {
  if (value.is_number())
    return value.get<double>();
  if (value == "Infinity")
    return std::numeric_limits<double>::infinity();
  if (value == "-Infinity")
    return -std::numeric_limits<double>::infinity();
  if (value == "NaN")
    return std::numeric_limits<double>::quiet_NaN();
  expected("a number, \"Infinity\", \"-Infinity\" or \"NaN\"");
}

bool JsonNode::boolean() const {
  if (!value.is_boolean())
    expected("true or false");
  return value.get<bool>();
}

std::string JsonNode::text() const {
  if (!value.is_string())
    expected("a string");
  return value.get<std::string>();
}

std::vector<int64_t> JsonNode::integers(int64_t least) const {
  std::vector<int64_t> numbers;
  numbers.reserve(size());
  forEach(
      [&](const JsonNode &node) { numbers.push_back(node.integer(least)); });
  return numbers;
}

std::string JsonNode::path() const {
  if (!parent)
    return std::string(key);
  if (parent->value.is_array())
    return parent->path() + "[" + std::to_string(index) + "]";
  return parent->path() + "." + std::string(key);
}

void JsonNode::expected(std::string_view what) const {
  std::string found =
      value.dump(-1, ' ', false, json::error_handler_t::replace);
  constexpr size_t longest = 60;
  if (found.size() > longest)
    found = found.substr(0, longest) + "...";
  fail("expected " + std::string(what) + ", got " + found);
}

void JsonNode::fail(std::string_view message) const {
  throw std::runtime_error(path() + ": " + std::string(message));
}

} // namespace fcdp
