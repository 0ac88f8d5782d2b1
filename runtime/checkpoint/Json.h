// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON whose form is not trusted: every error names the place in the
// text, what was expected there and what was found.
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

/// Parses JSON. Throws std::runtime_error that names the byte that is wrong, or
/// a key that an object has twice.
nlohmann::json parseJson(std::string_view text);

/// A value with its place in the text. It refers to the node it was taken
/// from, so it must not outlive it. Immutable, hence thread-safe. Functions
/// throw std::runtime_error.
class JsonNode {
public:
  /// `origin` opens every message: "plan".
  JsonNode(const nlohmann::json &value, std::string_view origin)
      : value(value), key(origin) {}

  /// The member `name` of an object, which must be there.
  JsonNode at(std::string_view name) const;
  bool has(std::string_view name) const;
  /// True if the member is absent or null.
  bool isNull(std::string_view name) const;

  void forEach(const std::function<void(const JsonNode &)> &visit) const;
  void forEachMember(const std::function<void(std::string_view name,
                                              const JsonNode &)> &visit) const;
  size_t size() const;
  JsonNode at(size_t position) const;

  int64_t integer(int64_t least = std::numeric_limits<int64_t>::min(),
                  int64_t greatest = std::numeric_limits<int64_t>::max()) const;
  /// Numbers, and the strings "Infinity", "-Infinity" and "NaN".
  double number() const;
  bool boolean() const;
  std::string text() const;
  std::vector<int64_t>
  integers(int64_t least = std::numeric_limits<int64_t>::min()) const;

  const nlohmann::json &raw() const { return value; }
  /// "plan.ops[3].out"
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
