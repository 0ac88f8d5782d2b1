// SPDX-License-Identifier: Apache-2.0
//
// Reads NumPy's .npy files.
#include "files/MappedFile.h"
#include "inputs/InputSource.h"
#include "inputs/NpyHeader.h"
#include "policy/IntegerAccess.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace fcdp::run {

namespace {

class NpyInput final : public InputSource {
public:
  NpyInput(const std::string &path, const plan::InputT &input,
           const PadElement *pad)
      : path(path), file(path), input(input), shape(input.shape) {
    if (pad)
      padding = *pad;
    NpyHeader header;
    try {
      header = parseNpyHeader(file.bytes());
    } catch (const std::runtime_error &error) {
      fail(error.what());
    }
    check(header);
    count = header.shape[0];
    data = file.bytes().subspan(header.dataOffset);
    rowBytes = numElements(shape) * byteSize(toDType(input.dtype));
    if (data.size() != count * rowBytes)
      fail("expected " + std::to_string(count * rowBytes) +
           " bytes of data for shape " + toString(header.shape) + ", got " +
           std::to_string(data.size()) +
           (data.size() < count * rowBytes ? "; is the file truncated?" : ""));
  }

  std::optional<int64_t> rows() const override { return count; }
  bool isWindowed() const override { return false; }
  const Shape &rowShape() const override { return shape; }

  void read(int64_t row, std::span<std::byte> out) const override {
    auto elements = int64_t(numElements(shape));
    check(row * elements, (row + 1) * elements);
    if (shape == input.shape)
      std::memcpy(out.data(), data.data() + row * rowBytes, rowBytes);
    else
      copyPadded(data.subspan(row * rowBytes, rowBytes), shape, out,
                 input.shape, padding);
    file.requireWhole();
  }

  void checkValues() const override {
    if (data.size() <= kMostCheckedBytes)
      check(0, int64_t(data.size() / byteSize(toDType(input.dtype))));
    file.requireWhole();
  }

private:
  /// Checks the elements [from, to) of an input that is an index.
  void check(int64_t from, int64_t to) const {
    for (int64_t i = from; input.indexLimit && i < to; ++i)
      checkValue(loadInteger(data.data(), i, formOf(toDType(input.dtype))), i,
                 path, input);
  }
  [[noreturn]] void fail(const std::string &message) const {
    throw std::runtime_error(describe(path, input) + message);
  }

  /// Returns whether rows of shape `batch` can be padded.
  bool isSmaller(const Shape &batch) const {
    return !padding.empty() && batch.size() == input.shape.size() &&
           std::equal(batch.begin(), batch.end(), input.shape.begin(),
                      std::less_equal<>());
  }

  void check(const NpyHeader &header) {
    if (header.fortranOrder)
      fail("expected an array in C order, got one in Fortran order; save "
           "numpy.ascontiguousarray(array)");
    if (header.dtype != toDType(input.dtype))
      fail(std::string("expected type ") + name(toDType(input.dtype)) +
           ", got " + header.descr +
           (header.dtype ? std::string(" (") + name(*header.dtype) + ")" : ""));
    Shape batch = header.shape;
    if (!batch.empty())
      batch.erase(batch.begin());
    if (header.shape.empty() || (batch != input.shape && !isSmaller(batch))) {
      std::string expected = toString(input.shape);
      expected.insert(1, input.shape.empty() ? "M" : "M, ");
      fail(std::string("expected ") + (padding.empty() ? "" : "at most ") +
           "shape " + expected + ", got " + toString(header.shape));
    }
    shape = batch;
    if (header.shape[0] < 1)
      fail("expected at least one row, got shape " + toString(header.shape));
  }

  std::string path;
  MappedFile file;
  const plan::InputT &input;
  /// The shape of a row.
  Shape shape;
  /// Empty if rows must have the shape of the input.
  PadElement padding;
  std::span<const std::byte> data;
  size_t count = 0, rowBytes = 0;
};

} // namespace

std::unique_ptr<InputSource> openNpy(const std::string &path,
                                     const plan::InputT &input,
                                     const PadElement *pad) {
  return std::make_unique<NpyInput>(path, input, pad);
}

} // namespace fcdp::run
