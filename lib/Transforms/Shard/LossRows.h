// SPDX-License-Identifier: Apache-2.0
//
// Numbers of rows of a loss. Logits may be sliced between the product and the
// loss, so that the product has more rows.
#pragma once

#include "Shard/LossHead.h"
#include "mlir/IR/Builders.h"

namespace fcdp {

/// Adds calls that take numbers of the product's rows to those of the loss, and
/// back. The calls are those of the logits, without the dimension of classes.
class LossRows {
public:
  LossRows(const LossHead &head, mlir::OpBuilder &builder,
           mlir::Location location)
      : head(head), builder(builder), location(location) {}

  /// Returns the shape of the loss's rows.
  llvm::ArrayRef<int64_t> getShape() const {
    return head.logProbs.getShape().drop_back();
  }
  /// Returns the numbers of the loss's rows from `rows`, a vector of the
  /// product's rows.
  mlir::Value toLoss(mlir::Value rows);
  /// Returns a vector of the product's rows from numbers of the loss's rows.
  /// Rows that slices leave out have the number `fill`.
  mlir::Value toProduct(mlir::Value rows, int64_t fill);
  mlir::Value view(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Returns the value in another shape. It is copied first, because its
  /// memory may have gaps.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value negate(mlir::Value value);
  mlir::Value expand(mlir::Value number, llvm::ArrayRef<int64_t> shape);

private:
  mlir::Value copy(mlir::Value value);

  const LossHead &head;
  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace fcdp
