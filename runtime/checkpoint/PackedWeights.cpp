// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/PackedWeights.h"

#include "core/PackedBlocks.h"
#include "core/SumKernels.h"
#include "files/FileErrors.h"
#include "weights/PackedFile.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

/// The most values that are read at a time, or those of one block.
constexpr int64_t kMostValues = 1 << 16;

/// A matrix that a file has in a floating type. Its blocks before `end` are
/// read in ascending order.
class FloatBlocks {
public:
  FloatBlocks(const plan::PackedT &packed, StoredTensor stored, int64_t end)
      : dtype(toDType(packed.dtype)), layout(layoutOf(packed)),
        stored(std::move(stored)), end(end) {}

  /// Packs a block. Returns false if a value is not finite.
  bool write(int64_t block, std::byte *out) {
    if (block >= readEnd)
      read(block);
    return packBlock(layout,
                     std::span(values).subspan(
                         size_t((block - readFirst) * layout.blockValues),
                         size_t(layout.valuesOf(block))),
                     out);
  }

private:
  void read(int64_t block) {
    readFirst = block;
    readEnd = std::min(
        end, block + std::max<int64_t>(1, kMostValues / layout.blockValues));
    const int64_t first = block * layout.blockValues;
    const int64_t count =
        std::min(readEnd * layout.blockValues, layout.values) - first;
    values.resize(size_t(count));
    auto *wide = reinterpret_cast<std::byte *>(values.data());
    if (dtype == DType::F32) {
      convertElements(stored, first, count, DType::F32, wide);
    } else {
      narrow.resize(size_t(count) * byteSize(dtype));
      convertElements(stored, first, count, dtype, narrow.data());
      convertElements(wide, DType::F32, narrow.data(), dtype, size_t(count));
    }
  }

  DType dtype;
  PackedLayout layout;
  StoredTensor stored;
  int64_t end;
  /// The blocks whose values are read.
  int64_t readFirst = 0, readEnd = 0;
  std::vector<float> values;
  std::vector<std::byte> narrow;
};

/// Calls `write(block, bytes)` for each block of the range and copies the bytes
/// of the range.
template <typename Write>
void writeBlocks(const PackedLayout &layout, int64_t first,
                 std::span<std::byte> out, const Write &write) {
  const int64_t size = layout.blockBytes();
  const int64_t end = first + int64_t(out.size());
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  for (int64_t block = first / size; block * size < end; ++block) {
    std::fill(bytes.begin(), bytes.end(), std::byte(0));
    write(block, bytes.data());
    const int64_t from = std::max(first, block * size);
    const int64_t to = std::min(end, (block + 1) * size);
    std::memcpy(out.data() + (from - first),
                bytes.data() + (from - block * size), size_t(to - from));
  }
}

} // namespace

PackedLayout layoutOf(const plan::PackedT &packed) {
  return packed.packing == plan::Packing::nf4
             ? PackedLayout::ofNf4(numElements(packed.shape))
             : PackedLayout::ofInt8(packed.shape[0], packed.shape[1]);
}

std::optional<std::string> describePacked(const plan::ParameterT &parameter) {
  if (!parameter.packed)
    return std::nullopt;
  const plan::PackedT &packed = *parameter.packed;
  return std::string(plan::EnumNamePacking(packed.packing)) + " of " +
         name(toDType(packed.dtype)) + toString(packed.shape);
}

void loadPacked(const plan::ParameterT &parameter, WeightSource &source,
                int64_t first, std::span<std::byte> out) {
  if (out.empty())
    return;
  const plan::PackedT &packed = *parameter.packed;
  const PackedLayout layout = layoutOf(packed);
  if (std::optional<PackedFile> file = openPacked(source, parameter)) {
    writeBlocks(layout, first, out, [&](int64_t block, std::byte *bytes) {
      file->write(layout, block, bytes);
    });
    return file->requireWhole();
  }
  const int64_t size = layout.blockBytes();
  FloatBlocks blocks(packed,
                     requireConvertible(source, parameter.names, packed.shape,
                                        toDType(packed.dtype)),
                     (first + int64_t(out.size()) + size - 1) / size);
  writeBlocks(layout, first, out, [&](int64_t block, std::byte *bytes) {
    if (!blocks.write(block, bytes))
      throwAt(source.path(),
              "'" + parameter.names[0] +
                  "': expected finite values of a matrix to pack as " +
                  plan::EnumNamePacking(packed.packing) + ", got others from " +
                  "element " + std::to_string(block * layout.blockValues) +
                  " on; leave the matrix out of the packed ones (--frozen=...,"
                  "keep=NAME)");
  });
}

std::vector<std::byte> unpackMatrix(const plan::PackedT &packed,
                                    std::span<const std::byte> bytes) {
  const PackedLayout layout = layoutOf(packed);
  const DType dtype = toDType(packed.dtype);
  std::vector<std::byte> matrix(size_t(layout.values) * byteSize(dtype));
  unpackBlocks(layout, bytes.data(), 0, layout.countBlocks(), dtype,
               matrix.data());
  return matrix;
}

} // namespace fcdp
