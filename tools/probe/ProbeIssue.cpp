// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeIssue.h"

#include "streams/StepRecorder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>

namespace fcdp::probe {

static constexpr int kIssuedOperators = 200;

double secondsToIssue(int count, const Work &call, const Work &finish) {
  call();
  finish();
  double begin = readClock();
  for (int i = 0; i < count; ++i)
    call();
  double seconds = (readClock() - begin) / count;
  finish();
  return seconds;
}

IssueRates measureIssue(c10::Device device, const Work &finish) {
  at::NoGradGuard noGrad;
  auto options = at::TensorOptions(at::kFloat).device(device);
  at::Tensor one = at::ones({4}, options), sum = at::empty_like(one);
  IssueRates rates;
  rates.op = secondsToIssue(
      kIssuedOperators, [&] { at::add_out(sum, one, one); }, finish);
  rates.view =
      secondsToIssue(kIssuedOperators, [&] { one.view({2, 2}); }, finish);
  return rates;
}

} // namespace fcdp::probe
