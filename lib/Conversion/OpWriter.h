// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Places.h"
#include "Slots.h"
#include "dialects/Aten/Aten.h"
#include "llvm/Support/JSON.h"

namespace fcdp {

/// Writes the entries of the manifest's `ops`.
class OpWriter {
public:
  OpWriter(mlir::ModuleOp module, const Places &places, const SlotTable &slots,
           llvm::json::OStream &json);

  mlir::LogicalResult write(const RuntimeCall &call);

private:
  mlir::LogicalResult writeBody(aten::CallOp op);
  mlir::LogicalResult writeBody(WriteBufferOp op);
  mlir::LogicalResult writeBody(LossOp op);
  mlir::LogicalResult writeBody(CastShardOp op);
  mlir::LogicalResult writeBody(PackOp op);
  mlir::LogicalResult writeBody(AccumulateOp op);
  mlir::LogicalResult writeBody(AddOp op);
  mlir::LogicalResult writeBody(ClipGradientsOp op);
  mlir::LogicalResult writeBody(ShardUpdateOp op);
  mlir::LogicalResult writeBody(AllGatherOp op);
  mlir::LogicalResult writeBody(ReduceScatterOp op);
  mlir::LogicalResult writeBody(CacheStoreOp op);
  mlir::LogicalResult writeBody(CacheLoadOp op);
  mlir::LogicalResult writeBody(RecordOp op);
  mlir::LogicalResult writeBody(WaitOp op);

  mlir::LogicalResult writeSlot(llvm::StringRef key, mlir::Value value,
                                mlir::Operation *op);
  mlir::LogicalResult writePlace(llvm::StringRef key, mlir::Value value,
                                 mlir::Operation *op);
  mlir::LogicalResult writeBucket(mlir::FlatSymbolRefAttr bucket,
                                  mlir::Operation *op);
  void writeAxis(mlir::ArrayAttr axes);
  mlir::LogicalResult writeStream(std::optional<Stream> stream,
                                  mlir::Operation *op);
  mlir::LogicalResult writeTypes(mlir::Value in, mlir::Value out,
                                 mlir::Operation *op);
  void writeFreed(mlir::Operation *op);

  const Places &places;
  const SlotTable &slots;
  llvm::json::OStream &json;
  /// Steps for a GPU say of what graphs may be made there.
  bool isForGpu = false;
  /// Positions of buckets and of buffers, by symbol.
  llvm::DenseMap<mlir::StringAttr, int64_t> buckets, buffers;
};

/// Writes `"args"` of a call.
mlir::LogicalResult writeArguments(aten::CallOp op, const SlotTable &slots,
                                   llvm::json::OStream &json);

} // namespace fcdp
