// SPDX-License-Identifier: Apache-2.0
//
// Files of weights as users give them: those of PEFT's adapters, and folders of
// Transformers.
#pragma once

#include "checkpoint/WeightMatching.h"
#include "checkpoint/WeightSource.h"

namespace fcdp {

/// Returns the path of weights, which a user may give as NAME=PATH: the name of
/// an adapter of the step, and its file or folder.
std::string pathOfWeights(const std::string &given);

/// Returns what to do if Transformers has stored a model there in another form
/// than it has, which fcdp-ckpt converts in this direction; else nothing.
std::string adviceOnForm(const std::string &path, const std::string &direction);

/// A file or folder of weights that a user gives.
struct GivenWeights {
  std::unique_ptr<WeightSource> source;
  WeightOrigin origin;
};

/// Opens files and folders. An adapter belongs to the step's adapter whose name
/// is given, or that its folder has, as PEFT names it; another one to the only
/// adapter that is left. Throws std::runtime_error for a name that is no
/// adapter's of the step.
std::vector<GivenWeights> openGiven(const std::vector<std::string> &given,
                                    const std::vector<TensorNames> &wanted);

} // namespace fcdp
