// SPDX-License-Identifier: Apache-2.0
//
// Opens files of weights that users name: files of PEFT's adapters, folders of
// Transformers, and files for one module of the step.
#pragma once

#include "weights/WeightMatching.h"
#include "weights/WeightSource.h"

namespace fcdp {

/// Returns the path in an argument PATH or NAME=PATH, where NAME is an adapter
/// or a module of the step and PATH is its file or folder.
std::string pathOfWeights(const std::string &given);

/// Returns advice for the end of an error message: how fcdp-ckpt converts the
/// model at `path` in this direction, if Transformers stores it in another
/// form. Returns an empty string if `path` is not a folder of Transformers.
std::string adviceOnForm(const std::string &path, const std::string &direction);

/// A file or folder of weights that a user gives.
struct GivenWeights {
  std::unique_ptr<WeightSource> source;
  WeightOrigin origin;
};

/// Opens files and folders. A file of an adapter belongs to the step's adapter
/// of the given name, else to the one that its folder is named after, as PEFT
/// does, else to the only adapter that is left. If NAME is no adapter but a
/// module, the file is for the tensors of this module. Throws
/// std::runtime_error for a name that is neither.
std::vector<GivenWeights> openGiven(const std::vector<std::string> &given,
                                    const std::vector<TensorNames> &wanted);

} // namespace fcdp
