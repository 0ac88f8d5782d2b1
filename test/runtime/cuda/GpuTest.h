// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests that need a GPU, which most machines do not have.
#pragma once

#include "cuda/CudaLibrary.h"

#include <gtest/gtest.h>

namespace fcdp {

/// Returns the reason why no GPU can be used, or an empty string.
inline std::string whyNoGpu() {
  try {
    CudaLibrary::load()->useDevice(0);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

/// Skips the test if there is no GPU, and says why.
#define FCDP_REQUIRE_GPU()                                                     \
  do                                                                           \
    if (std::string reason = fcdp::whyNoGpu(); !reason.empty())                \
      GTEST_SKIP() << "no GPU: " << reason;                                    \
  while (false)

} // namespace fcdp
