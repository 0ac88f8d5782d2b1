// SPDX-License-Identifier: Apache-2.0
//
// A compiled step, loaded from its shared object.
#pragma once

#include "fcdp/runtime.h"
#include "plan/StepPlan.h"

#include <memory>
#include <span>
#include <string>

namespace fcdp {

/// Owns a copy of the object in memory; move-only. Immutable once made, hence
/// thread-safe.
class StepObject {
public:
  /// Loads and checks the object. Throws std::runtime_error that names the
  /// file.
  explicit StepObject(const std::string &path);

  const std::string &path() const { return objectPath; }
  const StepPlan &plan() const { return checked; }
  /// Returns the SHA-1 of all loaded bytes, in hex digits.
  const std::string &hash() const { return objectHash; }
  /// Returns the bytes of fcdp_constants.
  std::span<const std::byte> constants() const { return constantBytes; }

private:
  struct Unload {
    void operator()(void *handle) const;
  };
  template <typename T>
  T *symbol(const char *name) const;
  void load();

  std::string objectPath, objectHash;
  std::unique_ptr<void, Unload> handle;
  std::span<const std::byte> constantBytes;
  StepPlan checked;
};

} // namespace fcdp
