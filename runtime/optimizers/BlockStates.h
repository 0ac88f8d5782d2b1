// SPDX-License-Identifier: Apache-2.0
//
// Converts optimizer states in 8 bits (arXiv 2110.02861). Each element has a
// code, and each block of 256 elements has a scale, its greatest magnitude.
#pragma once

#include "plan/StatePlaces.h"

#include <ATen/core/Tensor.h>

namespace fcdp {

/// Returns the 256 numbers from -1 or 0 to 1 that codes represent, in ascending
/// order. It is the dynamic map of bitsandbytes and torchao, with fewer digits
/// and smaller exponents towards 0. In f32 on the CPU.
at::Tensor dynamicMap(bool isSigned);

/// Converts whole blocks. Used by the issuing thread only.
class BlockCodec {
public:
  BlockCodec(bool isSigned, at::Device device);

  /// Writes the values to `out`, in f32. `indices` is scratch memory for as
  /// many i32.
  void decode(const at::Tensor &out, const at::Tensor &codes,
              const at::Tensor &scales, const at::Tensor &indices) const;
  /// Writes codes and scales of `values`, which it overwrites. A value becomes
  /// the nearest number of the map, or the greater of two that are as near.
  void encode(const at::Tensor &codes, const at::Tensor &scales,
              const at::Tensor &values, const at::Tensor &indices,
              const at::Tensor &scratch) const;

private:
  /// The map, and the midpoints from which on the next number of the map is
  /// nearer.
  at::Tensor map, middles;
};

} // namespace fcdp
