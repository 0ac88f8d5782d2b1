// SPDX-License-Identifier: Apache-2.0
#include "optimizers/BlockStates.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <vector>

namespace fcdp {

namespace {

/// Returns a view of whole blocks, with one row for each.
at::Tensor blocksOf(const at::Tensor &values) {
  return values.view({-1, kStateBlock});
}

} // namespace

at::Tensor dynamicMap(bool isSigned) {
  constexpr double scales[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
  std::vector<at::Tensor> parts = {at::tensor({0.0f, 1.0f})};
  int64_t numbers = isSigned ? 1 : 2;
  for (double scale : scales) {
    at::Tensor bounds = at::linspace(0.1, 1, numbers + 1, at::kFloat);
    at::Tensor means =
        bounds.narrow(0, 0, numbers).add(bounds.narrow(0, 1, numbers)).div(2);
    parts.push_back(means.mul(scale));
    if (isSigned)
      parts.push_back(means.mul(-scale));
    numbers *= 2;
  }
  return std::get<0>(at::sort(at::cat(parts)));
}

BlockCodec::BlockCodec(bool isSigned, at::Device device)
    : map(dynamicMap(isSigned)) {
  int64_t last = map.size(0) - 1;
  middles = map.narrow(0, 0, last).add(map.narrow(0, 1, last)).div(2);
  map = map.to(device);
  middles = middles.to(device);
}

void BlockCodec::decode(const at::Tensor &out, const at::Tensor &codes,
                        const at::Tensor &scales,
                        const at::Tensor &indices) const {
  at::Tensor result = out;
  at::index_select_out(result, map, 0, indices.copy_(codes));
  blocksOf(out).mul_(scales.unsqueeze(1));
}

void BlockCodec::encode(const at::Tensor &codes, const at::Tensor &scales,
                        const at::Tensor &values, const at::Tensor &indices,
                        const at::Tensor &scratch) const {
  at::Tensor magnitudes = scratch, greatest = scales, found = indices;
  at::abs_out(magnitudes, values);
  at::amax_out(greatest, blocksOf(magnitudes), {1});
  greatest.clamp_min_(1e-12);
  blocksOf(values).div_(greatest.unsqueeze(1));
  at::bucketize_out(found, values, middles, /*out_int32=*/true,
                    /*right=*/true);
  codes.copy_(found);
}

} // namespace fcdp
