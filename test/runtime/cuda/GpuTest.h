// SPDX-License-Identifier: Apache-2.0
//
// For tests that need a GPU, which most machines have not.
#pragma once

#include "cuda/CudaLibrary.h"

#include <gtest/gtest.h>

namespace fcdp {

/// Why no GPU can be used here, or empty.
inline std::string whyNoGpu() {
  try {
    CudaLibrary::load()->useDevice(0);
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

/// Skips the test where there is none, and says why.
#define FCDP_REQUIRE_GPU()                                                     \
  do                                                                           \
    if (std::string reason = fcdp::whyNoGpu(); !reason.empty())                \
      GTEST_SKIP() << "no GPU: " << reason;                                    \
  while (false)

} // namespace fcdp
