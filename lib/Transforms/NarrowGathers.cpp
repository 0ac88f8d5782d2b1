// SPDX-License-Identifier: Apache-2.0

#include "VerifyPhase.h"
#include "fcdp/Analysis/Aliases.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace fcdp {
#define GEN_PASS_DEF_NARROWGATHERSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class NarrowGathersPass
    : public fcdp::impl::NarrowGathersPassBase<NarrowGathersPass> {
public:
  void runOnOperation() override;
};

/// The type that a gathered parameter is read in, as far as seen.
struct ReadType {
  /// Null: not read yet.
  Type type;
  bool agrees = true;
  SmallVector<AllGatherOp> gathers;
};
} // namespace

/// The type that `op` casts to if it does nothing else, or null. A copy to
/// another memory format is more than a cast.
static FloatType getCastType(Operation *op) {
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call || call.getCallee() != "aten._to_copy.default" ||
      call->getNumOperands() != 1 || call->getNumResults() != 1)
    return {};
  Attribute format = call.getArgument("memory_format");
  if (format && !isa<UnitAttr>(format) &&
      format != aten::MemoryFormatAttr::get(op->getContext(),
                                            aten::MemoryFormat::preserve))
    return {};
  auto result = cast<RankedTensorType>(call.getResult(0).getType());
  return dyn_cast<FloatType>(result.getElementType());
}

/// Whether `op` shows each element of its operand once, in the same type. The
/// cast of such a view has the view's own strides, so that the view of the cast
/// is as good as the cast of the view; a slice's cast would be compact.
static bool isWholeView(Operation *op) {
  if (!isView(op) || op->getNumResults() != 1)
    return false;
  auto call = dyn_cast<aten::CallOp>(op);
  if (!call || call.getCallee().starts_with("aten.as_strided."))
    return false;
  auto operand = cast<RankedTensorType>(op->getOperand(0).getType());
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  return operand.getElementType() == result.getElementType() &&
         operand.getNumElements() == result.getNumElements();
}

/// Merges the types in which `value`, a gathered parameter or a view of it, is
/// read into `read`.
static void collectReadTypes(Value value, ReadType &read) {
  auto own = cast<RankedTensorType>(value.getType()).getElementType();
  for (Operation *user : value.getUsers()) {
    if (isWholeView(user)) {
      collectReadTypes(user->getResult(0), read);
      continue;
    }
    Type type = getCastType(user);
    if (!type)
      type = own;
    read.agrees &= !read.type || read.type == type;
    read.type = type;
  }
}

/// Gives `value` and the views on it the element type `type`, and drops the
/// casts to it.
static void retype(Value value, Type type) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    if (isWholeView(user)) {
      retype(user->getResult(0), type);
      continue;
    }
    user->getResult(0).replaceAllUsesWith(value);
    user->erase();
  }
  value.setType(cast<RankedTensorType>(value.getType()).clone(type));
}

static void narrow(AllGatherOp gather, Type type) {
  OpBuilder builder(gather);
  auto shard = cast<ShardType>(gather.getInput().getType());
  auto narrowed =
      ShardType::get(builder.getContext(),
                     cast<RankedTensorType>(shard.getWhole().clone(type)));
  auto cast = CastShardOp::create(builder, gather.getLoc(), narrowed,
                                  gather.getInput(), BufferAttr());
  gather.getInputMutable().assign(cast);
  retype(gather.getResult(), type);
}

void NarrowGathersPass::runOnOperation() {
  if (failed(requirePhase(getOperation(), Phase::sharded)))
    return signalPassFailure();
  // A parameter has one wire type, so all its gathers must agree.
  llvm::MapVector<StringAttr, ReadType> reads;
  getOperation()->walk([&](AllGatherOp gather) {
    if (!isa<ShardType>(gather.getInput().getType()))
      return;
    ReadType &read = reads[gather.getSourceAttr().getAttr()];
    read.gathers.push_back(gather);
    collectReadTypes(gather.getResult(), read);
  });
  for (auto &[name, read] : reads) {
    auto shard = cast<ShardType>(read.gathers.front().getInput().getType());
    Type storage = shard.getWhole().getElementType();
    if (!read.agrees || !read.type ||
        elementBytes(read.type) >= elementBytes(storage))
      continue;
    for (AllGatherOp gather : read.gathers)
      narrow(gather, read.type);
  }
}
