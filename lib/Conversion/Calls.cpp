// SPDX-License-Identifier: Apache-2.0

#include "Calls.h"

#include "dialects/Aten/Aten.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fcdp;

/// The entry point's name without `fcdp_rt_`; empty for an operation that
/// only names a value or its end.
static std::optional<StringRef> getKind(Operation *op, const Places &places) {
  return llvm::TypeSwitch<Operation *, std::optional<StringRef>>(op)
      .Case<ReadBufferOp, ReadInputOp, ReadShardOp, ReadStateOp, ViewMemberOp,
            ReleaseOp, func::ReturnOp>([](auto) { return ""; })
      .Case([&](AccumulateOp accumulate) {
        // A reduction may write the sum that it starts itself.
        StateOp sum = places.getAccumulator(accumulate);
        bool done = accumulate.getMode() == Accumulate::overwrite && sum &&
                    places.lookup(accumulate.getValue()) == sum.getBuffer();
        return done ? "" : "accumulate";
      })
      .Case([](aten::CallOp) { return "aten_call"; })
      .Case<WriteBufferOp, LossOp, PackOp, AddOp, ClipGradientsOp,
            ShardUpdateOp, AllGatherOp, ReduceScatterOp, CacheStoreOp,
            CacheLoadOp, RecordOp, WaitOp>(
          [](Operation *op) { return op->getName().stripDialect(); })
      .Case([](CastShardOp) { return "cast"; })
      .Default([](Operation *) { return std::nullopt; });
}

static LogicalResult checkFunction(func::FuncOp function) {
  if (!function->hasAttr(kRoleAttr))
    return function.emitError("expected the attribute '")
           << kRoleAttr << "' on the function";
  auto isToken = llvm::IsaPred<TokenType>;
  if (!llvm::all_of(function.getArgumentTypes(), isToken) ||
      !llvm::all_of(function.getResultTypes(), isToken))
    return function.emitError("expected tokens only as arguments and results");
  if (!function.getBody().hasOneBlock())
    return function.emitError("expected a function of one block");
  return success();
}

static LogicalResult collectFrom(func::FuncOp function, const Places &places,
                                 std::vector<RuntimeCall> &calls) {
  if (failed(checkFunction(function)))
    return failure();
  for (Operation &op : function.front()) {
    std::optional<StringRef> kind = getKind(&op, places);
    if (!kind)
      return op.emitOpError("the runtime has no call for this operation");
    if (!kind->empty())
      calls.push_back({&op, *kind});
  }
  return success();
}

FailureOr<std::vector<RuntimeCall>> fcdp::collectCalls(ModuleOp module,
                                                       const Places &places) {
  std::vector<RuntimeCall> calls;
  llvm::DenseMap<Role, func::FuncOp> roles;
  for (Operation &op : *module.getBody()) {
    if (isa<MeshOp, ParameterOp, BufferOp, InputOp, BucketOp, StateOp>(op))
      continue;
    auto function = dyn_cast<func::FuncOp>(op);
    if (!function)
      return op.emitOpError("the runtime has no call for this operation");
    if (failed(collectFrom(function, places, calls)))
      return failure();
    Role role = function->getAttrOfType<RoleAttr>(kRoleAttr).getValue();
    auto [other, isNew] = roles.try_emplace(role, function);
    if (!isNew) {
      InFlightDiagnostic diag = function.emitError("expected one function of "
                                                   "the role '")
                                << stringifyRole(role) << "'";
      diag.attachNote(other->second.getLoc()) << "this is another";
      return diag;
    }
  }
  return calls;
}
