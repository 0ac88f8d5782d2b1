// SPDX-License-Identifier: Apache-2.0
//
// Compiled steps without the compiler: a manifest and lists of calls, made a
// shared object by the system's C compiler.
#pragma once

#include "fcdp/runtime.h"
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fcdp::test {

using Json = nlohmann::ordered_json;

/// A folder that is removed at the end of the test.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string file(const std::string &name) const {
    return (path / name).string();
  }

  std::filesystem::path path;
};

struct FakeStep {
  /// A valid manifest of one rank without any operation.
  FakeStep();

  /// Appends an operation to the manifest and a call of it to a function.
  void add(const std::string &function, Json op);
  /// Appends a slot and returns its index.
  size_t slot(Json slot);
  size_t transient() { return slot({{"kind", "transient"}}); }

  /// Says that buffers of the plan are in the first `bytes` of the device
  /// arena, and that operators have all else. Calls are in the order of the
  /// functions.
  void hold(uint64_t bytes);

  /// The manifest with its hash.
  std::string text() const;
  /// Writes and compiles the object, and returns its path.
  std::string build(const TemporaryFolder &folder) const;

  Json manifest;
  uint32_t abi = FCDP_ABI_VERSION;
  std::vector<unsigned char> constants;
  struct Call {
    std::string kind;
    size_t op;
  };
  std::map<std::string, std::vector<Call>> calls;
};

/// A region of the device arena, the same on all ranks.
Json device(uint64_t offset, uint64_t bytes);
/// The same with a type.
Json device(uint64_t offset, uint64_t bytes, const std::string &dtype);
Json host(uint64_t offset, uint64_t bytes);

/// `text` with the hash that belongs to it.
std::string withHash(const std::string &text);

/// A step on a mesh: one parameter `w` of 6 elements (8 with padding), loss
/// sum((w x - y)^2), plain SGD; everything goes through collectives as ZeRO-3
/// does, and the gathered parameter through the host cache.
FakeStep linearStep(uint32_t nodes, uint32_t locals, int microBatches);

} // namespace fcdp::test
