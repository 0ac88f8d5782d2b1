// SPDX-License-Identifier: Apache-2.0
//
// The RMS norm that CUDA alone has as one operator, by operators of the CPU.
// Results are in order in memory and rounded once
// (ATen/native/cuda/layer_norm_kernel.cu).

#include "EmulatedTorch.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace fcdp::emulated {
namespace {

using at::Tensor;

std::optional<DeviceView> viewIfAny(const Tensor &tensor) {
  return tensor.defined() ? std::optional(DeviceView(tensor)) : std::nullopt;
}

Tensor hostIfAny(const std::optional<DeviceView> &view) {
  return view ? view->onHost() : Tensor();
}

/// The weight, if there is one, has the type and the shape that the kernels
/// require.
void check(const Tensor &input, at::IntArrayRef shape, const Tensor &weight) {
  size_t outer = input.dim() - shape.size();
  TORCH_CHECK(input.sizes().slice(outer) == shape,
              "expected an input whose last dimensions are those of the norm");
  TORCH_CHECK(!weight.defined() ||
                  (weight.sizes() == shape &&
                   weight.scalar_type() == input.scalar_type()),
              "expected a weight of the type of the input");
}

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> dims;
  for (int64_t dim = begin; dim < end; ++dim)
    dims.push_back(dim);
  return dims;
}

void computeGradients(const Tensor &gradOut, const Tensor &input, int64_t outer,
                      const Tensor &deviation, const Tensor &weight,
                      const Tensor &ofInput, const Tensor &ofWeight) {
  at::ScalarType type = deviation.scalar_type();
  Tensor grad = gradOut.to(type), scaled = input.to(type) * deviation;
  if (ofWeight.defined())
    ofWeight.copy_((grad * scaled).sum(range(0, outer)));
  if (!ofInput.defined())
    return;
  if (weight.defined())
    grad = grad * weight.to(type);
  Tensor mean = (grad * scaled).mean(range(outer, input.dim()), true);
  ofInput.copy_((grad - scaled * mean) * deviation);
}

} // namespace

std::tuple<Tensor, Tensor> rmsNorm(const Tensor &input, at::IntArrayRef shape,
                                   const std::optional<Tensor> &givenWeight,
                                   std::optional<double> eps) {
  Tensor weight = givenWeight.value_or(Tensor());
  check(input, shape, weight);
  std::vector<int64_t> rows = input.sizes().vec();
  std::fill(rows.end() - int64_t(shape.size()), rows.end(), 1);
  Tensor out = at::empty(input.sizes(), input.options());
  Tensor deviation = at::empty(
      rows, input.options().dtype(at::toOpMathType(input.scalar_type())));
  enqueue([input = DeviceView(input), weight = viewIfAny(weight),
           out = DeviceView(out), deviation = DeviceView(deviation),
           shape = shape.vec(), eps] {
    // The CPU's operator takes an undefined weight for one that is there.
    std::optional<Tensor> onHost;
    if (weight)
      onHost = weight->onHost();
    auto [result, inverse] =
        at::_fused_rms_norm(input.onHost(), shape, onHost, eps);
    out.onHost().copy_(result);
    deviation.onHost().copy_(inverse);
  });
  return {out, deviation};
}

std::tuple<Tensor, Tensor>
rmsNormBackward(const Tensor &grad, const Tensor &input, at::IntArrayRef shape,
                const Tensor &deviation,
                const std::optional<Tensor> &givenWeight,
                std::array<bool, 2> needed) {
  Tensor weight = givenWeight.value_or(Tensor()), ofInput, ofWeight;
  check(input, shape, weight);
  if (needed[0])
    ofInput = at::empty(input.sizes(), input.options());
  if (needed[1])
    ofWeight = at::empty(shape, input.options());
  enqueue([grad = DeviceView(grad), input = DeviceView(input),
           outer = input.dim() - int64_t(shape.size()),
           deviation = DeviceView(deviation), weight = viewIfAny(weight),
           ofInput = viewIfAny(ofInput), ofWeight = viewIfAny(ofWeight)] {
    computeGradients(grad.onHost(), input.onHost(), outer, deviation.onHost(),
                     hostIfAny(weight), hostIfAny(ofInput),
                     hostIfAny(ofWeight));
  });
  return {ofInput, ofWeight};
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  library.impl("_fused_rms_norm", TORCH_FN(rmsNorm));
  library.impl("_fused_rms_norm_backward", TORCH_FN(rmsNormBackward));
}

} // namespace fcdp::emulated
