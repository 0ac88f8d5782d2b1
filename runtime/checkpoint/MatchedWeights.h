// SPDX-License-Identifier: Apache-2.0
//
// The weights that a step begins with.
#pragma once

#include "checkpoint/WeightNames.h"
#include "checkpoint/WeightSource.h"

namespace fcdp {

/// Files of weights under the names of a step. A tensor comes from the first
/// file that has it.
class MatchedWeights final : public WeightSource {
public:
  /// Opens files and folders. Throws std::runtime_error that lists the step's
  /// tensors that are in none of them.
  MatchedWeights(const StepPlan &plan, const std::vector<std::string> &paths);

  std::optional<StoredTensor> find(const std::string &name) override;
  std::vector<std::string> names() const override;
  const std::string &path() const override { return allPaths; }
  void dropPages() override;

  /// What a user should know, a sentence each: names that differ, types that
  /// are converted, and tensors that the step has not.
  std::vector<std::string> notes() const;

private:
  struct File {
    std::unique_ptr<WeightSource> source;
    WeightNames names;
  };
  void checkAllFound() const;
  std::vector<std::string> notesOn(const File &file) const;
  /// The step's names of what it reads from files, with all names of each.
  std::vector<std::vector<std::string>> wanted() const;
  const std::string *findName(const std::string &name) const;

  const StepPlan &plan;
  std::vector<File> files;
  std::string allPaths;
};

} // namespace fcdp
