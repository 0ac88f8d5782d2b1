// SPDX-License-Identifier: Apache-2.0
//
// Attributes and types of the IR in the plan's terms.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// The enumerator of the schema that is spelled as one of the IR.
template <typename Enum, size_t N>
Enum findByName(llvm::StringRef name, const Enum (&values)[N],
                const char *const *names) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i])
      return values[i];
  llvm_unreachable("the schema lacks an enumerator of the IR");
}

plan::Buf toBuf(BufferAttr buffer);
plan::Stream toStream(Stream stream);
plan::Role toRole(Role role);
std::vector<int64_t> toShape(mlir::RankedTensorType type);

/// Sets `out` to the data type. Refuses a type that the runtime lacks, at `op`.
mlir::LogicalResult setDType(plan::DType &out, mlir::Type type,
                             mlir::Operation *op);

/// Sets "file:line" and the module path of an operation, empty where unknown.
void setLocation(plan::OpT &out, mlir::Location location);

} // namespace fcdp
