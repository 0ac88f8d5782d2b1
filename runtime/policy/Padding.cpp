// SPDX-License-Identifier: Apache-2.0
#include "policy/Padding.h"

#include "plan/TorchTypes.h"
#include "policy/InputCheck.h"
#include "policy/IntegerAccess.h"
#include "policy/LossWeight.h"

#include <ATen/ops/full.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace fcdp {

namespace {

PadElement makeFloat(at::ScalarType type, double value) {
  at::Tensor one = at::full({1}, value, at::TensorOptions(type));
  auto *data = static_cast<const std::byte *>(one.const_data_ptr());
  return {data, data + one.nbytes()};
}

void fill(std::span<std::byte> out, const PadElement &pad) {
  for (size_t i = 0; i < out.size(); i += pad.size())
    std::memcpy(out.data() + i, pad.data(), pad.size());
}

bool isFilled(std::span<const std::byte> data, const PadElement &pad) {
  for (size_t i = 0; i < data.size(); i += pad.size())
    if (std::memcmp(data.data() + i, pad.data(), pad.size()) != 0)
      return false;
  return true;
}

/// Returns the bytes of one index of dimension `dim`.
size_t strideOf(const Shape &shape, size_t dim, size_t elementBytes) {
  size_t bytes = elementBytes;
  for (size_t i = dim + 1; i < shape.size(); ++i)
    bytes *= size_t(shape[i]);
  return bytes;
}

void copyCommon(const std::byte *from, const Shape &fromShape, std::byte *to,
                const Shape &toShape, size_t dim, size_t elementBytes) {
  if (dim == toShape.size()) {
    std::memcpy(to, from, elementBytes);
    return;
  }
  size_t fromStride = strideOf(fromShape, dim, elementBytes);
  size_t toStride = strideOf(toShape, dim, elementBytes);
  auto common = size_t(std::min(fromShape[dim], toShape[dim]));
  bool isSameBehind = std::equal(fromShape.begin() + dim + 1, fromShape.end(),
                                 toShape.begin() + dim + 1);
  if (isSameBehind) {
    if (common * toStride != 0)
      std::memcpy(to, from, common * toStride);
    return;
  }
  for (size_t i = 0; i < common; ++i)
    copyCommon(from + i * fromStride, fromShape, to + i * toStride, toShape,
               dim + 1, elementBytes);
}

bool isPaddedFrom(const Shape &inner, std::span<const std::byte> data,
                  const Shape &shape, size_t dim, const PadElement &pad) {
  if (std::equal(inner.begin() + dim, inner.end(), shape.begin() + dim))
    return true;
  size_t stride = strideOf(shape, dim, pad.size());
  for (int64_t i = 0; i < inner[dim]; ++i)
    if (!isPaddedFrom(inner, data.subspan(i * stride, stride), shape, dim + 1,
                      pad))
      return false;
  return isFilled(data.subspan(inner[dim] * stride), pad);
}

} // namespace

PadElement makePadding(const plan::InputT &input, double value) {
  auto refuse = [&](const std::string &why) {
    throw std::runtime_error("padding of input '" + input.name + "': " + why);
  };
  DType type = toDType(input.dtype);
  if (at::ScalarType scalar = toScalarType(type);
      at::isFloatingType(scalar) || at::isComplexType(scalar))
    return makeFloat(scalar, value);
  constexpr double most = 1LL << 53; // all integers up to it are doubles
  if (!(std::fabs(value) <= most) || std::trunc(value) != value)
    refuse("expected a whole number of at most 2^53, got " +
           std::to_string(value));
  auto number = int64_t(value);
  if (type == DType::Bool ? number != 0 && number != 1 : !fits(number, type))
    refuse("expected a value of type " + std::string(name(type)) + ", got " +
           std::to_string(number));
  if (std::string problem = describeBadValue(number, 0, input);
      !problem.empty())
    refuse("expected a value that the input may have, but its check says: " +
           problem);
  PadElement element(byteSize(type));
  storeInteger(element.data(), 0, type, number);
  return element;
}

void addPadding(std::map<std::string, double> &values, const std::string &text,
                const std::string &option) {
  size_t equals = text.rfind('=');
  double value = 0;
  const char *end = text.data() + text.size();
  const char *begin = equals == text.npos ? end : text.data() + equals + 1;
  auto read = std::from_chars(begin, end, value);
  if (equals == 0 || begin == end || read.ec != std::errc() || read.ptr != end)
    throw std::runtime_error(
        option + ": expected NAME=VALUE, with a number, got '" + text + "'");
  std::string name = text.substr(0, equals);
  if (!values.emplace(name, value).second)
    throw std::runtime_error(option + " " + name + ": given twice");
}

std::vector<PadElement>
makePaddings(const StepPlan &plan,
             const std::map<std::string, double> &values) {
  const StepPlan::Inputs inputs = plan.greatestInputs();
  for (const auto &[name, value] : values) {
    bool isKnown = std::any_of(
        inputs.begin(), inputs.end(),
        [&name = name](const auto &input) { return input->name == name; });
    if (!isKnown || !plan.hasSeveralShapes())
      throw std::runtime_error(
          "padding of input '" + name + "': " +
          (isKnown ? "expected a step of several shapes, got one of one shape"
                   : "the step has no input of that name"));
  }
  std::vector<PadElement> paddings;
  for (const auto &input : inputs) {
    auto given = values.find(input->name);
    double value = given == values.end() ? 0 : given->second;
    checkWeightPadding(plan, input->name, value);
    paddings.push_back(makePadding(*input, value));
  }
  return paddings;
}

void copyPadded(std::span<const std::byte> from, const Shape &fromShape,
                std::span<std::byte> to, const Shape &toShape,
                const PadElement &pad) {
  for (size_t i = 0; i < toShape.size(); ++i)
    if (toShape[i] > fromShape[i]) {
      fill(to, pad);
      break;
    }
  if (!from.empty() && !to.empty())
    copyCommon(from.data(), fromShape, to.data(), toShape, 0, pad.size());
}

bool isPaddedBeyond(const Shape &inner, std::span<const std::byte> data,
                    const Shape &shape, const PadElement &pad) {
  return isPaddedFrom(inner, data, shape, 0, pad);
}

} // namespace fcdp
