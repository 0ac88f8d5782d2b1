// SPDX-License-Identifier: Apache-2.0
//
// Keeps what a run writes apart from what it reads.
#pragma once

#include <string>
#include <vector>

namespace fcdp::run {

/// A file or folder of the command line.
struct NamedFile {
  std::string option, path;
  /// An output that may be a folder, in which files are made; an input that is
  /// the folder of a run.
  bool mayBeFolder = false;
};

/// Refuses an output that is the same file as another output or an input, by
/// whatever links. An input that is a folder stands for its files: no output
/// may be one of them, or be made beside them. Of the folder of a run these
/// are the checkpoints. No output may be in a checkpoint, read or not. Throws
/// std::runtime_error that names both options.
void checkDistinct(const std::vector<NamedFile> &outputs,
                   const std::vector<NamedFile> &inputs);

} // namespace fcdp::run
