// SPDX-License-Identifier: Apache-2.0
//
// Reads files with named tensors: .pt2 archives and safetensors files.
#pragma once

#include "checkpoint/StoredTensor.h"

#include <memory>
#include <optional>
#include <string>

namespace fcdp {

/// One thread at a time may use it. Functions throw std::runtime_error that
/// names the file.
class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// Returns none if the file has no tensor of this name.
  virtual std::optional<StoredTensor> find(const std::string &name) = 0;
  virtual const std::string &path() const = 0;
};

/// Opens a file of either kind. The first bytes tell which.
std::unique_ptr<WeightSource> openWeights(const std::string &path);

std::unique_ptr<WeightSource> openPt2(const std::string &path);
std::unique_ptr<WeightSource> openSafetensors(const std::string &path);

/// Returns the tensor under the first of `names` that the file has. Throws
/// std::runtime_error that names the tensor if there is none, or if its shape
/// or type differs.
StoredTensor requireTensor(WeightSource &source,
                           const std::vector<std::string> &names,
                           const Shape &shape, DType dtype);

} // namespace fcdp
