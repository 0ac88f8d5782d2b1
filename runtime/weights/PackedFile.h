// SPDX-License-Identifier: Apache-2.0
//
// Reads matrices that bitsandbytes has packed: codes under the name of the
// weight, and scales and a description under names beside it.
#pragma once

#include "core/PackedLayout.h"
#include "weights/WeightSource.h"

#include <optional>
#include <vector>

namespace fcdp {

/// A packed matrix of a file. Used by one thread.
class PackedFile {
public:
  /// Writes the bytes of a block, which are zero.
  void write(const PackedLayout &layout, int64_t block, std::byte *out) const;
  /// Throws std::runtime_error if the file has shrunk since it was opened, so
  /// that blocks that were written may be wrong.
  void requireWhole() const;

private:
  friend class PackedFileReader;

  float scaleOf(int64_t block) const;

  StoredTensor codes;
  /// Scales in f32, or their codes of 8 bits.
  StoredTensor scales;
  /// The value of each code of a nested scale. It is multiplied by a factor
  /// for each `nestedBlock` scales, and then the offset of all is added.
  std::vector<float> nestedTable;
  std::optional<StoredTensor> nestedScales;
  int64_t nestedBlock = 1;
  float nestedOffset = 0;
};

/// Returns the matrix if the source has it packed, and none if it has it in
/// another form. Throws std::runtime_error that names file, tensor, and what
/// was expected if it is packed in another way than the plan has it.
std::optional<PackedFile> openPacked(WeightSource &source,
                                     const plan::ParameterT &parameter);

} // namespace fcdp
