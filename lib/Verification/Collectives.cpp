// SPDX-License-Identifier: Apache-2.0
//
// Ranks that run different files must issue the same collectives.

#include "fcdp/Verification/PlanProofs.h"

#include "PlanModel.h"

using namespace mlir;
using namespace fcdp;

static SmallVector<Operation *> findCollectives(func::FuncOp function) {
  SmallVector<Operation *> collectives;
  for (Operation &op : function.front())
    if (isa<AllGatherOp, ReduceScatterOp, ClipGradientsOp>(op))
      collectives.push_back(&op);
  return collectives;
}

/// What the ranks of a collective must agree on, in words.
static std::string describeCollective(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << op->getName();
  for (StringRef name : {"source", "axes", "stream"})
    if (Attribute attribute = op->getAttr(name))
      os << ' ' << attribute;
  for (Value operand : op->getOperands())
    os << ' ' << operand.getType();
  for (Type type : op->getResultTypes())
    os << " to " << type;
  return text;
}

static LogicalResult compare(func::FuncOp function, func::FuncOp other,
                             StringRef peerName) {
  SmallVector<Operation *> own = findCollectives(function);
  SmallVector<Operation *> peers = findCollectives(other);
  for (size_t i = 0; i < std::max(own.size(), peers.size()); ++i) {
    Operation *left = i < own.size() ? own[i] : nullptr;
    Operation *right = i < peers.size() ? peers[i] : nullptr;
    std::string expected = right ? describeCollective(right) : "none";
    std::string got = left ? describeCollective(left) : "none";
    if (expected == got)
      continue;
    Operation *at = left ? left : function.getOperation();
    InFlightDiagnostic diag =
        at->emitError("collective ")
        << i << " of @" << function.getSymName() << " differs from that of '"
        << peerName << "': expected '" << expected << "', got '" << got << "'";
    diag.attachNote(right ? right->getLoc() : other.getLoc())
        << "the peer's is here";
    return diag;
  }
  return success();
}

LogicalResult fcdp::verifySameCollectives(ModuleOp module, ModuleOp peer,
                                          StringRef peerName) {
  MeshOp mesh = getMesh(module), other = getMesh(peer);
  if (mesh.getNode() != other.getNode() ||
      mesh.getLocal() != other.getLocal()) {
    InFlightDiagnostic diag = mesh.emitOpError("expected the mesh of '")
                              << peerName << "'";
    diag.attachNote(other.getLoc()) << "the peer's is here";
    return diag;
  }
  SymbolTable symbols(peer);
  for (auto function : module.getOps<func::FuncOp>()) {
    auto counterpart = symbols.lookup<func::FuncOp>(function.getSymName());
    if (!counterpart)
      return function.emitError("expected a function of that name in '")
             << peerName << "'";
    if (failed(compare(function, counterpart, peerName)))
      return failure();
  }
  return success();
}
