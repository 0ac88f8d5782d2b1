// SPDX-License-Identifier: Apache-2.0
//
// Reads files with named tensors: .pt2 archives, safetensors files, and folders
// of these as Hugging Face's models are stored.
#pragma once

#include "weights/StoredTensor.h"

#include <memory>
#include <optional>
#include <string>

namespace fcdp {

/// Returns `name` with `end` appended, or in place of its last part if `end`
/// does not begin with a dot.
std::string nameBeside(const std::string &name, const std::string &end);

/// One thread at a time may use it. Functions throw std::runtime_error that
/// names the file.
class WeightSource {
public:
  virtual ~WeightSource() = default;
  /// Returns none if the file has no tensor of this name.
  virtual std::optional<StoredTensor> find(const std::string &name) = 0;
  /// Returns the tensor that is stored beside the one that `find` returns. An
  /// `end` that begins with a dot is appended to its stored name, and any other
  /// replaces the last part of it. Returns none if there is none.
  virtual std::optional<StoredTensor> findBeside(const std::string &name,
                                                 const std::string &end) {
    return find(nameBeside(name, end));
  }
  /// Returns the names of parameters and persistent buffers.
  virtual std::vector<std::string> names() const = 0;
  virtual const std::string &path() const = 0;
  /// Returns whether it is the archive of an exported program.
  virtual bool isArchive() const { return false; }
  /// Releases the pages that were read from the process's memory. Reading them
  /// again is slow.
  virtual void dropPages() = 0;
};

/// Opens a folder, or a file of either kind. The first bytes determine the
/// kind.
std::unique_ptr<WeightSource> openWeights(const std::string &path);

std::unique_ptr<WeightSource> openPt2(const std::string &path);
std::unique_ptr<WeightSource> openSafetensors(const std::string &path);
/// Opens a file that is already mapped.
std::unique_ptr<WeightSource>
openSafetensors(const std::string &path,
                std::shared_ptr<const MappedFile> file);
/// Opens the files that the folder's index names or, without an index, all of
/// its safetensors files.
std::unique_ptr<WeightSource> openWeightFolder(const std::string &path);

/// Returns the tensor under the first of `names` that the file has. Throws
/// std::runtime_error that names the tensor if there is none, or if its shape
/// or type differs.
StoredTensor requireTensor(WeightSource &source,
                           const std::vector<std::string> &names,
                           const Shape &shape, DType dtype);

/// Does the same, but accepts any type that is convertible to `dtype`.
StoredTensor requireConvertible(WeightSource &source,
                                const std::vector<std::string> &names,
                                const Shape &shape, DType dtype);

} // namespace fcdp
