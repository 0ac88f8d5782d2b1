// SPDX-License-Identifier: Apache-2.0
//
// Attributes and types of the IR in the plan's terms.
#pragma once

#include "dialects/Fcdp/Fcdp.h"
#include "plan/Plan_generated.h"

namespace fcdp {

/// Appends a table to a vector of the plan.
template <typename Table>
Table &append(std::vector<std::unique_ptr<Table>> &tables) {
  return *tables.emplace_back(std::make_unique<Table>());
}

/// Returns the enumerator that the schema spells as the IR does. `names` are
/// the schema's names, which count from 0.
template <typename Enum>
Enum findByName(llvm::StringRef name, const char *const *names) {
  for (unsigned value = 0; names[value]; ++value)
    if (name == names[value])
      return static_cast<Enum>(value);
  llvm_unreachable("the schema lacks an enumerator of the IR");
}

plan::Buf toBuf(BufferAttr buffer);

/// Sets `out` to the data type. Refuses a type that the runtime lacks, at `op`.
mlir::LogicalResult setDType(plan::DType &out, mlir::Type type,
                             mlir::Operation *op);

/// Sets the fields that every table with a tensor's type has.
template <typename Table>
mlir::LogicalResult setType(Table &out, mlir::RankedTensorType type,
                            mlir::Operation *op) {
  out.shape = type.getShape().vec();
  plan::DType dtype;
  if (failed(setDType(dtype, type.getElementType(), op)))
    return mlir::failure();
  out.dtype = dtype;
  return mlir::success();
}

/// Sets "file:line" and the module path of an operation, empty where unknown.
void setLocation(plan::OpT &out, mlir::Location location);

} // namespace fcdp
