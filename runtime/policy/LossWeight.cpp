// SPDX-License-Identifier: Apache-2.0
#include "policy/LossWeight.h"

#include "core/SessionError.h"
#include "policy/IntegerAccess.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cmath>
#include <sstream>
#include <stdexcept>

namespace fcdp {

namespace {

double loadNumber(const std::byte *data, int64_t position, DType type) {
  switch (type) {
  case DType::F16:
    return float(loadAs<c10::Half>(data, position));
  case DType::BF16:
    return float(loadAs<c10::BFloat16>(data, position));
  case DType::F32:
    return loadAs<float>(data, position);
  case DType::F64:
    return loadAs<double>(data, position);
  case DType::Bool:
    return loadAs<uint8_t>(data, position) != 0;
  default:
    return double(loadInteger(data, position, formOf(type)));
  }
}

} // namespace

double sumWeights(const plan::InputT &input, std::span<const std::byte> data,
                  const std::string &batch, int64_t number, uint32_t rank) {
  const DType type = toDType(input.dtype);
  const auto elements = int64_t(data.size() / byteSize(type));
  double sum = 0;
  for (int64_t i = 0; i < elements; ++i) {
    double weight = loadNumber(data.data(), i, type);
    if (!(weight >= 0) || std::isinf(weight)) {
      std::ostringstream text;
      text << "input '" << input.name << "' of " << batch << ' ' << number
           << " on rank " << rank
           << ": expected weights of the loss, which are "
           << "finite and at least 0, got " << weight << " at position " << i;
      throw SessionError(SessionErrorCode::InputMismatch, text.str());
    }
    sum += weight;
  }
  return sum;
}

void checkWeightPadding(const StepPlan &plan, const std::string &input,
                        double value) {
  if (!plan.weightsLoss() || input != plan.lossWeight || value == 0)
    return;
  std::ostringstream text;
  text << "padding of input '" << input
       << "': expected 0, as the step weights its losses by it, got " << value;
  throw std::runtime_error(text.str());
}

} // namespace fcdp
