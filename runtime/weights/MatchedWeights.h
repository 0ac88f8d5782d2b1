// SPDX-License-Identifier: Apache-2.0
//
// Finds the weights that a step begins with.
#pragma once

#include "weights/AdapterFiles.h"
#include "weights/WeightMatching.h"
#include "weights/WeightSource.h"

#include <set>

namespace fcdp {

/// Files of weights under the names of a step. A tensor comes from the file
/// with its most specific name (WeightMatching.h), and from an archive only if
/// no other file has it.
class MatchedWeights final : public WeightSource {
public:
  /// Opens files and folders, each a path or NAME=PATH (AdapterFiles.h). Throws
  /// std::runtime_error that lists the step's tensors that none of them has.
  /// Also throws if two stored tensors have different values for one tensor of
  /// the step, or if an adapter has a tensor that the step does not use.
  MatchedWeights(const StepPlan &plan, const std::vector<std::string> &given);

  std::optional<StoredTensor> find(const std::string &name) override;
  std::optional<StoredTensor> findBeside(const std::string &name,
                                         const std::string &end) override;
  std::vector<std::string> names() const override;
  const std::string &path() const override { return allPaths; }
  void dropPages() override;

  /// Returns the facts that a user should know, a sentence each: names that
  /// differ, types that are converted, tensors that the step does not have, and
  /// which of several files a shared tensor was read from.
  std::vector<std::string> notes() const;

private:
  /// A tensor of the step.
  struct Wanted {
    TensorNames names;
    DType dtype;
    bool hasMaster = false;
    /// Whether the step has a value of its own.
    bool isOptional = false;
    /// Whether the tensor is packed when it is loaded.
    bool isPacked = false;
  };
  void match();
  void checkAllFound() const;
  void checkEqual(const Wanted &tensor, const WeightMatch &match);
  void checkAdapters() const;
  std::optional<StoredTensor> findAt(const WeightPlace &place) const;
  StoredTensor read(const WeightPlace &place) const;
  std::string describe(const WeightPlace &place) const;
  /// Returns the files' tensors that the step does not use.
  std::vector<std::string> unusedOf(size_t file) const;
  std::vector<std::string> notesOn(size_t file) const;
  std::vector<std::string> notesOnChoices(size_t file) const;

  std::vector<Wanted> wanted;
  std::vector<GivenWeights> files;
  std::vector<WeightNames> namesOf;
  /// The match of each tensor in `wanted`.
  std::vector<WeightMatch> matches;
  std::map<std::string, WeightPlace> placeOf;
  std::set<WeightPlace> used;
  std::string allPaths;
};

} // namespace fcdp
