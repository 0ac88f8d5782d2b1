// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/FusedTraffic.h"

#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/OperatorCost.h"

#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;
using aten::Work;

static int64_t countElements(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && hasByteSize(type) ? type.getNumElements() : 0;
}

/// Returns the number of elements that the kernel of `call` iterates over.
static int64_t countElements(CallOp call) {
  int64_t most = 0;
  for (Value value : call->getOperands())
    most = std::max(most, countElements(value));
  for (Value value : call->getResults())
    most = std::max(most, countElements(value));
  return most;
}

static bool isView(CallOp call) {
  return aten::lookupOp(call.getCallee()).aliasing == aten::Aliasing::View;
}

bool fcdp::canBeFused(CallOp call) {
  aten::OpInfo info = aten::lookupOp(call.getCallee());
  return info.aliasing == aten::Aliasing::Fresh &&
         (info.work == Work::Bytes || info.work == Work::Fill);
}

static bool isProduct(Operation *op) {
  auto call = dyn_cast<CallOp>(op);
  if (!call)
    return false;
  switch (aten::lookupOp(call.getCallee()).work) {
  case Work::MatMul:
  case Work::GroupedMatMul:
  case Work::Convolution:
  case Work::ConvolutionBackward:
  case Work::Attention:
  case Work::AttentionBackward:
  case Work::ChunkedLoss:
    return true;
  default:
    return false;
  }
}

/// Returns whether `writer` and `reader`, which follows it, are in one kernel.
static bool areFused(CallOp writer, CallOp reader) {
  if (writer->getBlock() != reader->getBlock() || !canBeFused(writer) ||
      !canBeFused(reader) || countElements(writer) != countElements(reader))
    return false;
  for (Operation *op = reader->getPrevNode(); op && op != writer;
       op = op->getPrevNode())
    if (isProduct(op))
      return false;
  return true;
}

/// Returns the call that computes `value`, or the value that it is a view of.
static CallOp findWriter(Value value) {
  auto call = value.getDefiningOp<CallOp>();
  while (call && isView(call) && call->getNumOperands() > 0)
    call = call->getOperand(0).getDefiningOp<CallOp>();
  return call;
}

/// Returns whether all readers of `value`, or of a view of it, are in the
/// kernel of `writer`.
static bool isReadInKernelOnly(CallOp writer, Value value) {
  return llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto reader = dyn_cast<CallOp>(user);
    if (!reader)
      return false;
    if (isView(reader))
      return llvm::all_of(reader->getResults(), [&](Value view) {
        return isReadInKernelOnly(writer, view);
      });
    return areFused(writer, reader);
  });
}

FusedTraffic fcdp::measureFusedTraffic(CallOp call) {
  FusedTraffic traffic;
  SmallPtrSet<void *, 8> read;
  if (aten::lookupOp(call.getCallee()).work != Work::Fill)
    for (Value operand : call->getOperands()) {
      CallOp writer = findWriter(operand);
      if (read.insert(operand.getAsOpaquePointer()).second &&
          !(writer && areFused(writer, call)))
        traffic.bytes += countBytes(operand);
    }
  bool isReadInKernel = false, isWritten = false;
  for (Value result : call->getResults()) {
    if (result.use_empty())
      continue;
    if (isReadInKernelOnly(call, result)) {
      isReadInKernel = true;
      continue;
    }
    isWritten = true;
    traffic.bytes += countBytes(result);
  }
  traffic.isLast = isWritten || !isReadInKernel;
  return traffic;
}
