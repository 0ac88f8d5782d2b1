// SPDX-License-Identifier: Apache-2.0
//
// A compiled step, loaded from its shared object.
#pragma once

#include "fcdp/runtime.h"
#include "plan/Manifest.h"

#include <map>
#include <memory>
#include <span>
#include <string>

namespace fcdp {

/// Owns the loaded object; move-only. Immutable once made, hence thread-safe.
class StepObject {
public:
  using Function = void (*)(fcdp_step *);

  /// Loads and checks the object. Throws std::runtime_error that names the
  /// file.
  explicit StepObject(const std::string &path);

  const std::string &path() const { return objectPath; }
  const Manifest &manifest() const { return checked; }
  /// Null if the family of functions has none of this name.
  Function function(const std::string &name) const;
  /// fcdp_constants.
  std::span<const std::byte> constants() const { return constantBytes; }

private:
  struct Unload {
    void operator()(void *handle) const;
  };
  template <typename T>
  T *symbol(const char *name) const;
  void load();

  std::string objectPath;
  std::unique_ptr<void, Unload> handle;
  std::span<const std::byte> constantBytes;
  Manifest checked;
  std::map<std::string, Function> functions;
};

} // namespace fcdp
