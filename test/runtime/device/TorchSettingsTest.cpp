// SPDX-License-Identifier: Apache-2.0
#include "device/TorchSettings.h"

#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/InferenceMode.h>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

/// Restores what the tests change.
class TorchSettingsTest : public testing::Test {
protected:
  ~TorchSettingsTest() override { own.apply(); }

  const TorchSettings own = TorchSettings::current();
  at::Context &context = at::globalContext();
};

} // namespace

TEST_F(TorchSettingsTest, AScopeHasItsOwnAndRestoresTheProcesss) {
  c10::set_default_dtype(caffe2::TypeMeta::Make<double>());
  at::set_num_threads(own.threads + 1);
  context.setDeterministicAlgorithms(true, true);
  context.setUserEnabledMkldnn(!own.flags[3]);
  {
    TorchScope scope(own);
    EXPECT_EQ(at::ones({1}).scalar_type(), at::kFloat);
    EXPECT_EQ(at::get_num_threads(), own.threads);
    EXPECT_FALSE(context.deterministicAlgorithms());
    EXPECT_EQ(context.userEnabledMkldnn(), own.flags[3]);
  }
  EXPECT_EQ(at::ones({1}).scalar_type(), at::kDouble);
  EXPECT_EQ(at::get_num_threads(), own.threads + 1);
  EXPECT_TRUE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_EQ(context.userEnabledMkldnn(), !own.flags[3]);
}

/// libtorch refuses to tell a precision if older and newer settings differ.
TEST_F(TorchSettingsTest, ThreadsAreTheProcesssAgain) {
  at::set_num_threads(2);
  {
    ThreadsScope scope(3);
    EXPECT_EQ(at::get_num_threads(), 3);
  }
  EXPECT_EQ(at::get_num_threads(), 2);
  {
    ThreadsScope scope(3);
    at::set_num_threads(4);
  }
  EXPECT_EQ(at::get_num_threads(), 4);
}

TEST_F(TorchSettingsTest, PrecisionsOfProductsStayConsistent) {
  for (const char *precision : {"high", "medium", "highest"}) {
    context.setFloat32MatmulPrecision(precision);
    const at::Float32MatmulPrecision set = context.float32MatmulPrecision();
    {
      TorchScope scope(own);
      EXPECT_EQ(context.float32MatmulPrecision(), *own.float32.matmul);
    }
    EXPECT_EQ(context.float32MatmulPrecision(), set);
  }
  context.setAllowTF32CuDNN(!*own.float32.cudnn);
  {
    TorchScope scope(own);
    EXPECT_EQ(context.allowTF32CuDNN(), *own.float32.cudnn);
  }
  EXPECT_EQ(context.allowTF32CuDNN(), !*own.float32.cudnn);
}

TEST_F(TorchSettingsTest, AScopeIsOutsideOfAutocastAndInferenceMode) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  c10::InferenceMode inference;
  const at::Tensor matrix = at::ones({2, 2});
  EXPECT_EQ(at::matmul(matrix, matrix).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(matrix.is_inference());
  {
    TorchScope scope(own);
    EXPECT_EQ(at::matmul(matrix, matrix).scalar_type(), at::kFloat);
    EXPECT_FALSE(at::ones({1}).is_inference());
  }
  EXPECT_EQ(at::matmul(matrix, matrix).scalar_type(), at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, false);
}

/// As torch.set_flush_denormal does, and as a library may.
TEST_F(TorchSettingsTest, AScopeRoundsAsItsOwnSettingsSay) {
  std::fesetround(FE_UPWARD);
  {
    TorchScope scope(own);
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  }
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
}

TEST_F(TorchSettingsTest, MakeDeterministicChangesNoneButItsOwn) {
  TorchSettings settings = own;
  settings.makeDeterministic();
  EXPECT_FALSE(context.deterministicAlgorithms());
  TorchScope scope(settings);
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
}
