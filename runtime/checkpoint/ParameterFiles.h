// SPDX-License-Identifier: Apache-2.0
//
// Writes the parameters of a step for other programs.
#pragma once

#include "checkpoint/Shards.h"

namespace fcdp {

/// Which tensors are written, and where.
struct ParameterOutput {
  /// A safetensors file, or a folder: one that exists, or a path that ends with
  /// a slash. A folder gets files and an index as Hugging Face's models have.
  std::string path;
  /// Leaves out frozen parameters and buffers.
  bool onlyTrained = false;
  /// A file or folder of weights, or NAME=PATH of an adapter. Writes the
  /// tensors that it has, under its names; a tied parameter under each of them.
  /// Empty: all, under the step's names.
  std::string like{};
  /// Folders to write to, in turn, if `path` cannot be written.
  std::vector<std::string> elsewhere{};
  /// Of tensors in one file of a folder. A larger tensor has a file of its own.
  uint64_t mostFileBytes = 5'000'000'000;
};

/// Returns how many bytes will be written. Throws std::runtime_error if a
/// folder has weights already, if nothing would be written, or if `like` has
/// tensors that the step has not or has in another shape.
uint64_t checkOutput(const StepPlan &plan, const ParameterOutput &output);

/// Collects a bucket's parts on the caller, in their order; on other ranks the
/// result is not looked at.
using GatherShards = std::function<std::vector<std::byte>(size_t bucket)>;

/// Writes parameters and persistent buffers, holding one bucket in memory. All
/// ranks call it, as `gather` is called for each bucket with parameters to
/// write; only `isWriter` writes. Throws std::runtime_error, when all ranks
/// have given their parts. A file is complete or not there, and an index is
/// written last.
void saveParameters(const StepPlan &plan, const ParameterOutput &output,
                    bool isWriter, const GatherShards &gather,
                    const MemoryOf &buffer);

/// Returns where to write the same in one of the folders `elsewhere`.
ParameterOutput moveTo(const ParameterOutput &output,
                       const std::string &folder);

} // namespace fcdp
