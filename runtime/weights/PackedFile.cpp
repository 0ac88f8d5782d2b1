// SPDX-License-Identifier: Apache-2.0
//
// This file is compiled with -ffp-contract=off: a nested scale is a product,
// rounded, and then a sum.
#include "weights/PackedFile.h"

#include "core/PackedBlocks.h"
#include "files/FileErrors.h"
#include "files/Json.h"

#include <algorithm>
#include <cstring>

namespace fcdp {

namespace {

constexpr const char *kDescription = ".quant_state.bitsandbytes__nf4";
constexpr int64_t kNf4Block = 64;

/// Copies elements without a check of the file, which takes longer than a
/// block.
void copyUnchecked(const StoredTensor &tensor, int64_t first, int64_t count,
                   void *target) {
  copyElements(tensor, byteSize(tensor.dtype), tensor.storage.data(), first,
               count, static_cast<std::byte *>(target));
}

float readFloat(const StoredTensor &tensor, int64_t index) {
  float value;
  copyUnchecked(tensor, index, 1, &value);
  return value;
}

std::vector<float> readFloats(const StoredTensor &tensor) {
  std::vector<float> values(size_t(numElements(tensor.shape)));
  copyElements(tensor, 0, int64_t(values.size()),
               reinterpret_cast<std::byte *>(values.data()));
  return values;
}

int64_t storedBytes(const StoredTensor &tensor) {
  return numElements(tensor.shape) * int64_t(byteSize(tensor.dtype));
}

} // namespace

/// Reads the parts of one matrix.
class PackedFileReader {
public:
  PackedFileReader(WeightSource &source, const plan::ParameterT &parameter)
      : source(source), parameter(parameter), packed(*parameter.packed) {}

  std::optional<PackedFile> open() {
    for (const std::string &candidate : parameter.names)
      if (auto stored = source.find(candidate)) {
        name = candidate;
        file.codes = std::move(*stored);
        break;
      }
    if (name.empty())
      return std::nullopt;
    std::optional<StoredTensor> description =
        source.findBeside(name, kDescription);
    const bool isInt8 = file.codes.dtype == DType::I8;
    if (!description && !isInt8) {
      requireFloats();
      return std::nullopt;
    }
    const bool isOfKind = (packed.packing == plan::Packing::int8) == isInt8;
    if (!isOfKind)
      refuse(std::string("expected a matrix in a floating type or packed as ") +
             plan::EnumNamePacking(packed.packing) + ", got one packed as " +
             (isInt8 ? "int8" : "nf4") +
             "; compile the step with --frozen=" + (isInt8 ? "int8" : "nf4"));
    if (packed.transposed)
      refuse("expected the matrix of a linear layer, got one that the model "
             "multiplies by without a transpose, which bitsandbytes stores "
             "transposed; give the weights in a floating type");
    if (isInt8)
      readInt8();
    else
      readNf4(*description);
    return std::move(file);
  }

private:
  [[noreturn]] void refuse(const std::string &message) const {
    throwAt(source.path(), "'" + name + "': " + message);
  }

  StoredTensor require(const std::string &end, DType dtype, int64_t elements) {
    std::optional<StoredTensor> tensor = source.findBeside(name, end);
    if (!tensor)
      refuse("expected a tensor '" + end +
             "' beside it, as bitsandbytes stores "
             "packed matrices, got none");
    if (tensor->dtype != dtype || numElements(tensor->shape) != elements)
      refuse("expected '" + end + "' beside it to be " +
             std::to_string(elements) + " elements of " + fcdp::name(dtype) +
             ", got " + fcdp::name(tensor->dtype) + toString(tensor->shape));
    return *tensor;
  }

  /// Refuses bytes without a description, which are no values.
  void requireFloats() const {
    if (file.codes.dtype == DType::U8)
      refuse(std::string("expected a matrix in a floating type, or '") +
             kDescription + "' beside its bytes, as bitsandbytes stores NF4");
  }

  void readInt8() {
    if (file.codes.shape != packed.shape)
      refuse("expected shape " + toString(packed.shape) + ", got " +
             toString(file.codes.shape));
    file.scales = require("SCB", DType::F32, packed.shape[0]);
    if (auto format = source.findBeside(name, "weight_format")) {
      uint8_t value = 0;
      if (storedBytes(*format) == 1)
        copyElements(*format, 0, 1, reinterpret_cast<std::byte *>(&value));
      if (value != 0)
        refuse("expected 'weight_format' 0 (rows) beside it, got " +
               std::to_string(value));
    }
  }

  void readNf4(const StoredTensor &description) {
    const int64_t values = numElements(packed.shape);
    const int64_t blocks = (values + kNf4Block - 1) / kNf4Block;
    // The bytes may be stored in a wider type.
    const int64_t bytes = (values + 1) / 2;
    const auto width = int64_t(byteSize(file.codes.dtype));
    if (storedBytes(file.codes) != (bytes + width - 1) / width * width)
      refuse("expected " + std::to_string(bytes) + " bytes for " +
             toString(packed.shape) + ", got " +
             std::to_string(storedBytes(file.codes)));
    std::string text(size_t(storedBytes(description)), '\0');
    copyElements(description, 0, numElements(description.shape),
                 reinterpret_cast<std::byte *>(text.data()));
    try {
      readDescription(text, blocks);
    } catch (const std::exception &error) {
      refuse(error.what());
    }
    checkTable();
  }

  void readDescription(const std::string &text, int64_t blocks) {
    nlohmann::json value = parseJson(text);
    JsonNode state(value, "quant_state");
    if (state.at("quant_type").text() != "nf4")
      state.at("quant_type").expected("'nf4'");
    if (state.at("blocksize").integer() != kNf4Block)
      state.at("blocksize").expected("64");
    if (state.at("shape").integers(0) != packed.shape)
      state.at("shape").expected(toString(packed.shape));
    if (!state.has("nested_offset")) {
      file.scales = require(".absmax", DType::F32, blocks);
      return;
    }
    file.nestedOffset = float(state.at("nested_offset").number());
    file.nestedBlock = state.at("nested_blocksize").integer(1);
    file.scales = require(".absmax", DType::U8, blocks);
    file.nestedScales =
        require(".nested_absmax", DType::F32,
                (blocks + file.nestedBlock - 1) / file.nestedBlock);
    file.nestedTable =
        readFloats(require(".nested_quant_map", DType::F32, 256));
  }

  void checkTable() {
    std::vector<float> table =
        readFloats(require(".quant_map", DType::F32, 16));
    std::span<const float, 16> own = nf4Values();
    if (!std::equal(own.begin(), own.end(), table.begin()))
      refuse(
          "expected the values of NF4 in '.quant_map' beside it, got others");
  }

  WeightSource &source;
  const plan::ParameterT &parameter;
  const plan::PackedT &packed;
  std::string name;
  PackedFile file;
};

float PackedFile::scaleOf(int64_t block) const {
  if (!nestedScales)
    return readFloat(scales, block);
  uint8_t code = 0;
  copyUnchecked(scales, block, 1, &code);
  const float product =
      nestedTable[code] * readFloat(*nestedScales, block / nestedBlock);
  return product + nestedOffset;
}

void PackedFile::write(const PackedLayout &layout, int64_t block,
                       std::byte *out) const {
  const int64_t first = block * layout.blockValues * layout.codeBits / 8;
  const int64_t count = (layout.valuesOf(block) * layout.codeBits + 7) / 8;
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  const auto width = int64_t(byteSize(codes.dtype));
  if (width == 1) {
    copyUnchecked(codes, first, count, bytes.data());
  } else {
    const int64_t from = first / width;
    const int64_t to = (first + count + width - 1) / width;
    std::vector<std::byte> wide(size_t((to - from) * width));
    copyUnchecked(codes, from, to - from, wide.data());
    std::memcpy(bytes.data(), wide.data() + (first - from * width),
                size_t(count));
  }
  writeBlock(scaleOf(block), bytes, out);
}

void PackedFile::requireWhole() const {
  if (codes.owner)
    codes.owner->requireWhole();
  if (scales.owner)
    scales.owner->requireWhole();
}

std::optional<PackedFile> openPacked(WeightSource &source,
                                     const plan::ParameterT &parameter) {
  return PackedFileReader(source, parameter).open();
}

} // namespace fcdp
