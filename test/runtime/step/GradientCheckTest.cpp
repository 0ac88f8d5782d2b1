// SPDX-License-Identifier: Apache-2.0
//
// Steps stop at gradients that are infinite or NaN, and at no others.
#include "step/StepFixture.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

using namespace fcdp;
using namespace fcdp::test;

namespace {

constexpr size_t kGradients = 67, kGradientBytes = 4 * kGradients;
// Bytes from one bucket's gradients to the next one's.
constexpr uint64_t kGradientStride = 320;

/// A step on one rank that has two buckets and never writes their gradients.
class GradientCheckTest : public StepTest {
protected:
  GradientCheckTest() {
    for (int64_t i = 0; i < 2; ++i)
      fake.plan["buckets"].push_back(
          {{"name", "b" + std::to_string(i)},
           {"unit", "u"},
           {"trainable", true},
           {"elements", kGradients},
           {"shard_elements", kGradients},
           {"storage", "f32"},
           {"wire", "f32"},
           {"reduce", "f32"},
           {"states",
            {test::state("shard", "f32",
                         device((2 + i) * kGradientStride, kGradientBytes)),
             test::state("grad", "f32",
                         device(i * kGradientStride, kGradientBytes))}},
           {"sharding", "world"}});
    addLoss();
    StepSetup setup;
    setup.onNonfinite = OnNonfinite::Stop;
    load(setup);
  }

  /// Returns the bucket that a step names if one of the gradients of `bucket`
  /// has the value `found` and all others have `other`.
  std::optional<int64_t> check(int64_t bucket, size_t element, float found,
                               float other) {
    for (int64_t i = 0; i < 2; ++i) {
      std::array<float, kGradients> gradients;
      gradients.fill(other);
      if (i == bucket)
        gradients[element] = found;
      std::memcpy(backend->deviceBase() + i * kGradientStride, gradients.data(),
                  kGradientBytes);
    }
    run();
    return step->nonfiniteGradient();
  }
};

TEST_F(GradientCheckTest, NamesTheBucketOfTheGradient) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (int64_t bucket : {0, 1})
    // The last element comes after the vectors of a loop.
    for (size_t element : {size_t(0), size_t(31), kGradients - 1})
      for (float found : {infinity, -infinity, float(NAN), -float(NAN)})
        EXPECT_EQ(check(bucket, element, found, 0.5f), bucket)
            << found << " at " << element;
}

TEST_F(GradientCheckTest, DontNameFiniteGradients) {
  const float most = std::numeric_limits<float>::max();
  for (float found : {most, -most, 0.0f, -0.0f})
    for (float other : {most, -most, 0.5f})
      EXPECT_EQ(check(1, 3, found, other), std::nullopt)
          << found << " beside " << other;
}

} // namespace
