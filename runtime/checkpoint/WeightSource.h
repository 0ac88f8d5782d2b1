// SPDX-License-Identifier: Apache-2.0
//
// Files that hold values by name: .pt2 archives and safetensors files.
#pragma once

#include "checkpoint/StoredTensor.h"

#include <memory>
#include <optional>
#include <string>

namespace fcdp {

/// Used by one thread at a time. Functions throw std::runtime_error that names
/// the file.
class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// None if the file has no tensor of this name.
  virtual std::optional<StoredTensor> find(const std::string &name) = 0;
  virtual const std::string &path() const = 0;
};

/// Opens a file of either kind, known by its first bytes.
std::unique_ptr<WeightSource> openWeights(const std::string &path);

std::unique_ptr<WeightSource> openPt2(const std::string &path);
std::unique_ptr<WeightSource> openSafetensors(const std::string &path);

/// The tensor under the first of `names` that the file has. Throws
/// std::runtime_error, which names the tensor, if there is none or if it has
/// another shape or type.
StoredTensor requireTensor(WeightSource &source,
                           const std::vector<std::string> &names,
                           const Shape &shape, DType dtype);

} // namespace fcdp
