// SPDX-License-Identifier: Apache-2.0
//
// Writes the parameters of a step for other programs.
#pragma once

#include "checkpoint/Shards.h"

namespace fcdp {

/// The tensors to write, and their files.
struct ParameterOutput {
  /// A safetensors file, or a folder: one that exists, or a path that ends with
  /// a slash. A folder gets files and an index in the form of Hugging Face's
  /// models.
  std::string path;
  /// Leaves out frozen parameters and buffers.
  bool onlyTrained = false;
  /// A file or folder of weights, or NAME=PATH of an adapter or a module. Only
  /// the tensors that it has are written, under its names; a tied parameter
  /// under each of them. If empty, all tensors are written under the step's
  /// names.
  std::string like{};
  /// Folders that are tried in order if `path` cannot be written.
  std::vector<std::string> elsewhere{};
  /// The most bytes of tensors in one file of a folder. A larger tensor has a
  /// file of its own.
  uint64_t mostFileBytes = 5'000'000'000;
};

/// Returns the number of bytes to write. Throws std::runtime_error if a folder
/// has weights already, if nothing would be written, or if `like` has tensors
/// that the step lacks or has in another shape.
uint64_t checkOutput(const StepPlan &plan, const ParameterOutput &output);

/// Collects a bucket's parts on the calling rank, in their order. On other
/// ranks the result is not used.
using GatherShards = std::function<std::vector<std::byte>(size_t bucket)>;

/// Writes parameters and persistent buffers, with one bucket at a time in
/// memory. All ranks call it, because `gather` is collective and is called for
/// each bucket with parameters to write; only `isWriter` writes. If writing
/// fails, it throws std::runtime_error after all ranks have sent their parts. A
/// file is complete or absent, and an index is written last.
void saveParameters(const StepPlan &plan, const ParameterOutput &output,
                    bool isWriter, const GatherShards &gather,
                    const MemoryOf &buffer);

/// Returns the same output in the folder `folder`, one of `elsewhere`.
ParameterOutput moveTo(const ParameterOutput &output,
                       const std::string &folder);

} // namespace fcdp
