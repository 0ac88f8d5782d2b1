// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests that need a GPU, which most machines do not have.
#pragma once

#include "cuda/CudaLibrary.h"

#include <filesystem>
#include <gtest/gtest.h>
#include <string>

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

/// Returns the path of a library of the machine that built the tests, or its
/// file name, by which the system finds it, if another machine runs them.
inline std::string realLibrary(const std::string &path) {
  return std::filesystem::exists(path)
             ? path
             : std::filesystem::path(path).filename().string();
}

/// Skips the test if there is no GPU, and says why.
#define FCDP_REQUIRE_GPU()                                                     \
  do                                                                           \
    if (std::string reason = fcdp::whyNoGpu(); !reason.empty())                \
      GTEST_SKIP() << "no GPU: " << reason;                                    \
  while (false)

} // namespace fcdp
