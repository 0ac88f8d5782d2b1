// SPDX-License-Identifier: Apache-2.0
//
// Finds the names of a step's tensors in a file of weights.
#pragma once

#include "weights/AdapterNames.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

/// The ways in which a stored name matches a name of the step, from the most to
/// the least specific.
enum class Likeness {
  /// The names are equal.
  Equal,
  /// The stored name is the one that PEFT gives the tensor. The prefixes may
  /// differ.
  Stored,
  /// The modules of adapters insert components into one of the names, or the
  /// adapters have different names.
  Unwrapped,
  /// The stored tensor is the model's own, and a new adapter gets a copy of it
  /// ("modules_to_save").
  Copied,
};
inline constexpr size_t kNumLikenesses = 4;

/// Facts about a file of weights besides its names.
struct WeightOrigin {
  /// Whether PEFT has stored an adapter in it. Then it has no tensors of the
  /// model itself, except for those that are stored with the adapter.
  bool isAdapter = false;
  /// The adapter's name in the step; empty for any.
  std::string adapter{};
  /// The module of the step that the file is for, as the prefix of its names
  /// with a dot at its end; empty for the whole step.
  std::string module{};
};

/// Matches the stored names of one file with the names of a step, which are
/// those of the exported module. Prefixes may differ, too: "model." of a module
/// around the model, or the name of the base model in a file of a whole one.
/// One prefix is chosen for all names, the one by which most are found. In a
/// file for one module, only names of this module are found, without the
/// module's own name.
class WeightNames {
public:
  WeightNames(const std::vector<std::string> &wanted,
              const std::vector<std::string> &stored, WeightOrigin origin = {});
  WeightNames(WeightNames &&) = default;

  /// Returns all stored names that match `wanted` in this way.
  std::vector<std::string> find(const std::string &wanted,
                                Likeness likeness) const;

  /// Returns `wanted` without the name of the file's module, or none if it is
  /// in another module.
  std::optional<std::string> nameInModule(const std::string &wanted) const;

  const WeightOrigin &origin() const { return fileOrigin; }

  /// Returns the prefixes by which equally many names are found, so that none
  /// was chosen: "student." and "teacher.". Returns none otherwise.
  const std::vector<std::string> &undecided() const { return equalPrefixes; }

private:
  struct Stored {
    std::string name;
    TensorName parsed;
  };
  void choosePrefixes(const std::vector<std::string> &wanted);
  std::vector<std::string> findInModule(const std::string &wanted,
                                        Likeness likeness) const;
  bool isLike(const TensorName &wanted, const TensorName &stored,
              Likeness likeness) const;
  /// Returns the name by which most tensors of this kind of file are found.
  const std::string &mainName(const TensorName &name) const;

  WeightOrigin fileOrigin;
  std::vector<Stored> all;
  std::map<std::string, const Stored *> exact;
  std::multimap<std::string, const Stored *> byStored, byBase;
  /// The prefix of the step's names, and the prefix of the stored names in its
  /// place.
  std::string wantedPrefix, storedPrefix;
  std::vector<std::string> equalPrefixes;
};

} // namespace fcdp
