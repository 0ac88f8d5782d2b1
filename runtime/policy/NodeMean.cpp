// SPDX-License-Identifier: Apache-2.0
#include "policy/NodeMean.h"

#include "core/Pieces.h"
#include "core/SumKernels.h"

#include <vector>

namespace fcdp {

void writeNodeMean(uint32_t nodes, DType dtype, std::span<const std::byte> own,
                   std::byte *out, const GatherOverNodes &gather) {
  const size_t width = byteSize(dtype);
  std::vector<std::byte> all;
  std::vector<double> wide, sum;
  // All nodes' values of a piece are in memory at once.
  forEachPiece(
      int64_t(own.size() / width), pieceElements(1 << 20),
      [&](int64_t begin, int64_t elements) {
        const auto count = size_t(elements);
        const size_t bytes = count * width, first = size_t(begin) * width;
        all.resize(nodes * bytes);
        gather(own.subspan(first, bytes), all);
        wide.resize(count);
        sum.assign(count, 0);
        for (uint32_t node = 0; node < nodes; ++node) {
          convertElements(reinterpret_cast<std::byte *>(wide.data()),
                          DType::F64, all.data() + node * bytes, dtype, count);
          for (size_t i = 0; i < count; ++i)
            sum[i] += wide[i];
        }
        for (double &value : sum)
          value /= nodes;
        convertElements(out + first, dtype,
                        reinterpret_cast<const std::byte *>(sum.data()),
                        DType::F64, count);
      });
}

} // namespace fcdp
