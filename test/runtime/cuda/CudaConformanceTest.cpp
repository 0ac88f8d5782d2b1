// SPDX-License-Identifier: Apache-2.0
//
// Runs the conformance suite on the CUDA backend over the fakes: once with all
// work as late as possible, and once in random order.

#include "CudaWorld.h"

using namespace fcdp;
using namespace fcdp::conformance;

static Factory factory(const char *name, fake::Policy policy) {
  return {name, [policy](const WorldOptions &options) {
            return std::make_unique<CudaWorld>(options, policy);
          }};
}

INSTANTIATE_TEST_SUITE_P(Cuda, Conformance,
                         testing::Values(factory("Late", fake::Policy::Late),
                                         factory("Shuffled",
                                                 fake::Policy::Shuffled)),
                         [](const auto &info) { return info.param.name; });
