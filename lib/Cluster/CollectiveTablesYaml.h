// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CollectiveTables.h"
#include "llvm/Support/YAMLTraits.h"

namespace llvm::yaml {
template <>
struct MappingTraits<fcdp::CollectiveTables> {
  static void mapping(IO &io, fcdp::CollectiveTables &tables);
};
} // namespace llvm::yaml
