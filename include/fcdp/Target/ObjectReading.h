// SPDX-License-Identifier: Apache-2.0
//
// Reads the contents of a compiled step.
#pragma once

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <string>

namespace fcdp {

/// The data that a compiled step exports (runtime/include/fcdp/runtime.h).
struct ObjectData {
  std::string plan, constants;
};

/// Reads a shared or relocatable object.
llvm::Expected<ObjectData> readObject(llvm::MemoryBufferRef file);

} // namespace fcdp
