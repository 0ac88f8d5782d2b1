// SPDX-License-Identifier: Apache-2.0
//
// Parses the header of a .npy file.
#pragma once

#include "plan/StepPlan.h"

#include <span>

namespace fcdp::run {

struct NpyHeader {
  std::string descr;          ///< as the file spells the type: "<i8"
  std::optional<DType> dtype; ///< none if it has no counterpart
  bool fortranOrder = false;
  Shape shape;
  size_t dataOffset = 0; ///< bytes
};

/// Parses the header of `file`, the whole file. Throws std::runtime_error.
NpyHeader parseNpyHeader(std::span<const std::byte> file);

} // namespace fcdp::run
