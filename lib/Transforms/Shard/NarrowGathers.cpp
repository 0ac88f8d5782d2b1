// SPDX-License-Identifier: Apache-2.0

#include "Verify/VerifyPhase.h"
#include "fcdp/Analysis/Casts.h"

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

/// The gathers of a parameter and the type that all of them are read in.
struct Reads {
  /// The narrower type; null if there is none.
  FloatType type;
  SmallVector<AllGatherOp> gathers;
};
} // namespace

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
  llvm::MapVector<StringAttr, Reads> parameters;
  getOperation()->walk([&](AllGatherOp gather) {
    if (!isa<ShardType>(gather.getInput().getType()))
      return;
    FloatType type = findNarrowReadType(gather.getResult());
    Reads &reads = parameters[gather.getSourceAttr().getAttr()];
    if (reads.gathers.empty())
      reads.type = type;
    else if (reads.type != type)
      reads.type = {};
    reads.gathers.push_back(gather);
  });
  for (auto &[name, reads] : parameters)
    for (AllGatherOp gather : reads.gathers)
      if (reads.type)
        narrow(gather, reads.type);
}
