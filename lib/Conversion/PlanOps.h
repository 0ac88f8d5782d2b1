// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Places.h"
#include "Slots.h"
#include "dialects/Aten/Aten.h"

namespace fcdp {

/// Describes the operations of a module.
class PlanOps {
public:
  PlanOps(mlir::ModuleOp module, const Places &places, const SlotTable &slots);

  /// Appends `op`, one of those that collectCalls gives.
  mlir::LogicalResult add(mlir::Operation *op, plan::PlanT &plan);

private:
  mlir::LogicalResult fill(plan::AtenCallT &out, aten::CallOp op);
  mlir::LogicalResult fill(plan::WriteBufferT &out, WriteBufferOp op);
  mlir::LogicalResult fill(plan::LossT &out, LossOp op);
  mlir::LogicalResult fill(plan::CastT &out, CastShardOp op);
  mlir::LogicalResult fill(plan::PackBucketT &out, PackOp op);
  mlir::LogicalResult fill(plan::AccumulateT &out, AccumulateOp op);
  mlir::LogicalResult fill(plan::AddT &out, AddOp op);
  mlir::LogicalResult fill(plan::ClipGradientsT &out, ClipGradientsOp op);
  mlir::LogicalResult fill(plan::ShardUpdateT &out, ShardUpdateOp op);
  mlir::LogicalResult fill(plan::AllGatherT &out, AllGatherOp op);
  mlir::LogicalResult fill(plan::ReduceScatterT &out, ReduceScatterOp op);
  mlir::LogicalResult fill(plan::CacheCopyT &out, CacheStoreOp op);
  mlir::LogicalResult fill(plan::CacheCopyT &out, CacheLoadOp op);
  mlir::LogicalResult fill(plan::EventT &out, RecordOp op);
  mlir::LogicalResult fill(plan::EventT &out, WaitOp op);

  mlir::LogicalResult setSlot(uint32_t &out, mlir::Value value,
                              mlir::Operation *op);
  mlir::LogicalResult setPlace(plan::Buf &out, llvm::StringRef key,
                               mlir::Value value, mlir::Operation *op);
  std::vector<uint32_t> getFreed(mlir::Operation *op) const;

  const Places &places;
  const SlotTable &slots;
  /// Steps for a GPU say which calls may be in a graph.
  bool isForGpu = false;
  /// Positions of buckets and of buffers, by symbol.
  llvm::DenseMap<mlir::StringAttr, uint32_t> buckets, buffers;
};

/// Fills in the arguments of a call.
mlir::LogicalResult fillArguments(plan::AtenCallT &out, aten::CallOp op,
                                  const SlotTable &slots);

} // namespace fcdp
