// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/Device.h"
#include "llvm/Support/YAMLTraits.h"

namespace llvm::yaml {
template <>
struct MappingTraits<fcdp::Device> {
  static void mapping(IO &io, fcdp::Device &device);
};
} // namespace llvm::yaml
