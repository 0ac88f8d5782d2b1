// SPDX-License-Identifier: Apache-2.0
//
// Compiled steps without the compiler: a plan, made a shared object by the
// system's C compiler.
#pragma once

#include "fcdp/runtime.h"
#include "plan/StepPlan.h"

#include <filesystem>
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

/// Appends the checksum that an object ends with.
void seal(const std::string &object);

/// Tests write plans as JSON by the schema, shorter in three places: a union is
/// {"kind": K, ...}, an operation is one object, and an argument of a call is
/// ["self", {"t": 3}], with t, ts, i, is, f or b for its kind.
struct FakeStep {
  /// A valid plan of one rank without any operation. States have the whole
  /// device arena.
  FakeStep();

  /// Makes the functions, without operations.
  void setFunctions(const std::vector<std::string> &roles);
  /// Appends an operation to a function.
  void add(const std::string &role, Json op);
  /// Appends a slot and returns its index.
  size_t slot(Json slot);
  size_t transient() { return slot({{"kind", "transient"}}); }

  /// The plan as FlatBuffers.
  std::string bytes() const;
  /// Reads and checks the plan.
  StepPlan load() const;
  /// Reads and checks other bytes, with the hash that belongs to them.
  StepPlan loadBytes(const std::string &bytes) const;
  /// Writes and compiles the object, and returns its path.
  std::string build(const TemporaryFolder &folder) const;

  Json plan;
  uint32_t abi = FCDP_ABI_VERSION;
  std::vector<unsigned char> constants;
};

/// A region of the device arena, the same on all ranks.
Json device(uint64_t offset, uint64_t bytes);
Json host(uint64_t offset, uint64_t bytes);
/// A state of a bucket.
Json state(const std::string &role, const std::string &dtype, Json buf);

/// A step on a mesh: one parameter `w` of 6 elements (8 with padding), loss
/// sum((w x - y)^2), plain SGD; everything goes through collectives as ZeRO-3
/// does, and the gathered parameter through the host cache.
FakeStep linearStep(uint32_t nodes, uint32_t locals, int microBatches);

} // namespace fcdp::test
