// SPDX-License-Identifier: Apache-2.0
#include "device/Determinism.h"

#include "core/LibrarySettings.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <stdexcept>

using namespace fcdp;

namespace {

/// Restores the variable.
class Determinism : public testing::Test {
protected:
  Determinism() {
    unsetenv("CUBLAS_WORKSPACE_CONFIG");
    reserveLibrarySettings();
  }
  ~Determinism() override { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }

  TorchSettings settings = TorchSettings::current();
};

} // namespace

// With warnings alone, libtorch's fused attention would stay as it is.
TEST_F(Determinism, MakesOperatorsDeterministicOrFail) {
  makeDeterministic(settings);
  {
    TorchScope scope(settings);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
    EXPECT_TRUE(at::globalContext().deterministicCuDNN());
    EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  }
  EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
  EXPECT_FALSE(at::globalContext().deterministicCuDNN());
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(Determinism, FillsNoMemory) {
  makeDeterministic(settings);
  TorchScope scope(settings);
  EXPECT_FALSE(at::globalContext().deterministicFillUninitializedMemory());
}

TEST_F(Determinism, KeepsAWorkspaceThatTheUserHasChosen) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  makeDeterministic(settings);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
}

TEST_F(Determinism, RefusesAWorkspaceThatIsNot) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:2", 1);
  EXPECT_THROW(makeDeterministic(settings), std::runtime_error);
  EXPECT_FALSE(settings.deterministic);
}
