// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON whose form is not trusted. Every error names the place in the
// text, the expected value and the found one.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// Parses JSON. Throws std::runtime_error that names the position of the wrong
/// byte, or a key that an object has twice.
nlohmann::json parseJson(std::string_view text);

/// A value with its place in the text. It refers to the node that it was taken
/// from, and must not outlive that node. Immutable, hence thread-safe.
/// Functions throw std::runtime_error.
class JsonNode {
public:
  /// Every message begins with `origin`: "plan".
  JsonNode(const nlohmann::json &value, std::string_view origin)
      : value(value), key(origin) {}

  /// Returns the member `name` of an object, which must exist.
  JsonNode at(std::string_view name) const;
  bool has(std::string_view name) const;
  /// Returns whether the member is absent or null.
  bool isNull(std::string_view name) const;

  void forEach(const std::function<void(const JsonNode &)> &visit) const;
  void forEachMember(const std::function<void(std::string_view name,
                                              const JsonNode &)> &visit) const;
  size_t size() const;
  JsonNode at(size_t position) const;

  int64_t integer(int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t greatest = std::numeric_limits<int64_t>::max()) const;
  /// Returns a number, or the value of the strings "Infinity", "-Infinity" and
  /// "NaN".
  double number() const;
  bool boolean() const;
  std::string text() const;
  std::vector<int64_t>
  integers(int64_t least = std::numeric_limits<int64_t>::min()) const;

  const nlohmann::json &raw() const { return value; }
  /// Returns, for example, "plan.ops[3].out".
  std::string path() const;
  /// Throws "<path>: expected <what>, got <the value's text>".
  [[noreturn]] void expected(std::string_view what) const;
  [[noreturn]] void fail(std::string_view message) const;

private:
  JsonNode(const nlohmann::json &value, const JsonNode *parent,
           std::string_view key, size_t index)
      : value(value), parent(parent), key(key), index(index) {}

  const nlohmann::json &value;
  const JsonNode *parent = nullptr;
  std::string_view key;
  size_t index = 0;
};

} // namespace fcdp
