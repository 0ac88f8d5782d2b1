// SPDX-License-Identifier: Apache-2.0
//
// Makes calls of ATen operators, argument by argument.
#pragma once

#include "dialects/Aten/Aten.h"
#include "mlir/IR/Builders.h"

namespace fcdp {

class CallBuilder {
public:
  CallBuilder(mlir::OpBuilder &builder, mlir::Location location,
              llvm::StringRef callee)
      : builder(builder), location(location), callee(callee) {}

  /// Adds a tensor argument; the tensor is absent if `value` is null.
  CallBuilder &tensor(llvm::StringRef name, mlir::Value value) {
    if (!value)
      return literal(name, builder.getUnitAttr());
    operands.push_back(value);
    return literal(name, aten::OperandAttr::get(builder.getContext(),
                                                operands.size() - 1));
  }
  CallBuilder &literal(llvm::StringRef name, mlir::Attribute value) {
    names.push_back(builder.getStringAttr(name));
    values.push_back(value);
    return *this;
  }
  CallBuilder &integer(llvm::StringRef name, int64_t value) {
    return literal(name, builder.getI64IntegerAttr(value));
  }
  CallBuilder &integers(llvm::StringRef name, llvm::ArrayRef<int64_t> value) {
    return literal(name, builder.getI64ArrayAttr(value));
  }
  CallBuilder &number(llvm::StringRef name, double value) {
    return literal(name, builder.getF64FloatAttr(value));
  }
  CallBuilder &boolean(llvm::StringRef name, bool value) {
    return literal(name, builder.getBoolAttr(value));
  }
  /// Adds an argument, which keeps its default if `value` is null.
  CallBuilder &optional(llvm::StringRef name, mlir::Attribute value) {
    return value ? literal(name, value) : *this;
  }

  /// Creates the call. `undefined` is as in aten.call.
  aten::CallOp create(mlir::TypeRange types,
                      llvm::ArrayRef<int64_t> undefined = {}) {
    return aten::CallOp::create(
        builder, location, types, builder.getStringAttr(callee), operands,
        builder.getArrayAttr(names), builder.getArrayAttr(values),
        undefined.empty() ? nullptr : builder.getDenseI64ArrayAttr(undefined));
  }

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
  llvm::StringRef callee;
  llvm::SmallVector<mlir::Value> operands;
  llvm::SmallVector<mlir::Attribute> names, values;
};

} // namespace fcdp
