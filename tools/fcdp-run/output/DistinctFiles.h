// SPDX-License-Identifier: Apache-2.0
//
// Checks that a run does not write to files that it reads.
#pragma once

#include <string>
#include <vector>

namespace fcdp::run {

/// A file or folder of the command line.
struct NamedFile {
  std::string option, path;
  /// Whether the file may be a folder: for an output, one in which files are
  /// made; for an input, the folder of a run.
  bool mayBeFolder = false;
};

/// Refuses an output that is the same file as another output or an input, even
/// by links. An input that is a folder counts as its files: no output may be
/// one of them, or be made beside them. The files of a run's folder are its
/// checkpoints. No output may be in any checkpoint. Throws std::runtime_error
/// that names both options.
void checkDistinct(const std::vector<NamedFile> &outputs,
                   const std::vector<NamedFile> &inputs);

} // namespace fcdp::run
