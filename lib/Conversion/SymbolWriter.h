// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ConstantTable.h"
#include "Places.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// Writes what a module declares. Every function writes one key of the
/// manifest.
class SymbolWriter {
public:
  SymbolWriter(mlir::ModuleOp module, const Places &places,
               llvm::json::OStream &json);

  mlir::LogicalResult writeOptimizer();
  mlir::LogicalResult writeParameters();
  mlir::LogicalResult writeBuckets();
  mlir::LogicalResult writeBuffers(const ConstantTable &constants);
  mlir::LogicalResult writeInputs();

private:
  mlir::LogicalResult writeParameter(ParameterOp parameter);
  mlir::LogicalResult writeBucket(BucketOp bucket);
  mlir::LogicalResult writeStates(BucketOp bucket);
  void writeNumberOf(llvm::StringRef key, mlir::FloatAttr number);

  mlir::ModuleOp module;
  const Places &places;
  llvm::json::OStream &json;
  struct Membership {
    int64_t bucket, offset;
  };
  llvm::DenseMap<mlir::StringAttr, Membership> memberships;
  /// The type in which gradients of a bucket are reduced.
  llvm::DenseMap<mlir::StringAttr, mlir::Type> reduceTypes;
};

} // namespace fcdp
