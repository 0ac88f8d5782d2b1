// SPDX-License-Identifier: Apache-2.0
//
// The names of a step's tensors in a file of weights.
#pragma once

#include "checkpoint/AdapterNames.h"

#include <map>
#include <string>
#include <vector>

namespace fcdp {

/// How a stored name is found for a name of the step, from the most to the
/// least specific way.
enum class Likeness {
  /// The names are equal.
  Equal,
  /// It is the name under which PEFT stores the tensor. The beginnings may
  /// differ.
  Stored,
  /// The modules of adapters insert components into one of the names, or the
  /// adapters have different names.
  Unwrapped,
  /// It is the model's own tensor, of which a new adapter gets a copy
  /// ("modules_to_save").
  Copied,
};
inline constexpr size_t kNumLikenesses = 4;

/// What is known of a file of weights beside its names.
struct WeightOrigin {
  /// PEFT has stored an adapter in it. So it has no tensor of the model itself,
  /// except those that are stored with the adapter.
  bool isAdapter = false;
  /// The step's name of this adapter, or empty for any.
  std::string adapter{};
};

/// The stored names of one file, for the names of a step, which are those of
/// the module that was exported. They may differ in what they begin with, too:
/// "model." of a module around the model, or the name of the base model in a
/// file of a whole one. The same beginning is chosen for all names, the one by
/// which most are found.
class WeightNames {
public:
  WeightNames(const std::vector<std::string> &wanted,
              const std::vector<std::string> &stored, WeightOrigin origin = {});
  WeightNames(WeightNames &&) = default;

  /// Returns all stored names that are like it in this way.
  std::vector<std::string> find(const std::string &wanted,
                                Likeness likeness) const;

  const WeightOrigin &origin() const { return fileOrigin; }

  /// Returns the beginnings between which no choice was made, as equally many
  /// names are found by each: "student." and "teacher."; else nothing.
  const std::vector<std::string> &undecided() const { return equalPrefixes; }

private:
  struct Stored {
    std::string name;
    TensorName parsed;
  };
  void choosePrefixes(const std::vector<std::string> &wanted);
  bool isLike(const TensorName &wanted, const TensorName &stored,
              Likeness likeness) const;
  /// The name by which most tensors of this kind of file are found.
  const std::string &mainName(const TensorName &name) const;

  WeightOrigin fileOrigin;
  std::vector<Stored> all;
  std::map<std::string, const Stored *> exact;
  std::multimap<std::string, const Stored *> byStored, byBase;
  /// What the step's names begin with, and the stored ones instead.
  std::string wantedPrefix, storedPrefix;
  std::vector<std::string> equalPrefixes;
};

} // namespace fcdp
