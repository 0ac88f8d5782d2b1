// SPDX-License-Identifier: Apache-2.0
//
// The names of a step's parameters in files of weights.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace fcdp {

/// Finds the stored name of a step's parameter. The step has the names of the
/// module that was exported. They may differ from those in a file
///
/// - by what they begin with: "model." of a module around the model, or the
///   name of the base model in a file of a whole one;
/// - by components that wrappers insert: PEFT's "base_layer" and the name
///   "default" of an adapter, and those of torch.compile and FSDP.
///
/// A name that is in the file is always taken as it is.
class WeightNames {
public:
  WeightNames(const std::vector<std::string> &wanted,
              const std::vector<std::string> &stored);

  /// Returns the stored name, or null if there is none.
  const std::string *find(const std::string &wanted) const;

private:
  void choosePrefixes(const std::vector<std::string> &wanted);

  /// The stored names, as they are and without what wrappers insert. Empty
  /// stands for several.
  std::map<std::string, std::string> exact, plain;
  /// What the step's names begin with, and the stored ones instead.
  std::string wantedPrefix, storedPrefix;
};

/// Returns the name without the components that wrappers insert.
std::string withoutWrappers(std::string_view name);

} // namespace fcdp
