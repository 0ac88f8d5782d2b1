// SPDX-License-Identifier: Apache-2.0
//
// Defines the verifiers of the operations that read and write symbols in a
// function.

#include "dialects/Fcdp/Fcdp.h"

using namespace mlir;
using namespace fcdp;

/// Verifies C1 of the reads: `op` reads a `SymbolTy` of its result's type.
template <typename SymbolTy, typename OpTy>
static LogicalResult verifyRead(OpTy op, SymbolTableCollection &symbols,
                                StringRef what) {
  auto symbol =
      symbols.lookupNearestSymbolFrom<SymbolTy>(op, op.getSourceAttr());
  if (!symbol) // C1
    return op.emitOpError("expected ")
           << what << ", got " << op.getSourceAttr();
  if (symbol.getType() != op.getResult().getType()) { // C1
    InFlightDiagnostic diag = op.emitOpError("expected result type ")
                              << symbol.getType() << ", got "
                              << op.getResult().getType();
    diag.attachNote(symbol.getLoc()) << "declared here";
    return diag;
  }
  return success();
}

LogicalResult
ReadParameterOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyRead<ParameterOp>(*this, symbols, "a parameter");
}
LogicalResult ReadBufferOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyRead<BufferOp>(*this, symbols, "a buffer");
}
LogicalResult ReadInputOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyRead<InputOp>(*this, symbols, "an input");
}

LogicalResult GradientOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto parameter =
      symbols.lookupNearestSymbolFrom<ParameterOp>(*this, getParameterAttr());
  if (!parameter || !parameter.getTrainable()) // C1
    return emitOpError("expected a trainable parameter, got ")
           << getParameterAttr();
  auto type = cast<RankedTensorType>(getValue().getType());
  if (type.getShape() != parameter.getTensorType().getShape()) { // C1
    InFlightDiagnostic diag = emitOpError("expected the shape of ")
                              << parameter.getType() << ", got " << type;
    diag.attachNote(parameter.getLoc()) << "declared here";
    return diag;
  }
  return success();
}

LogicalResult LossOp::verify() {
  auto type = cast<RankedTensorType>(getValue().getType());
  if (!llvm::all_of(type.getShape(), [](int64_t size) { return size == 1; }) ||
      !isa<FloatType>(type.getElementType())) // C1
    return emitOpError("expected one element of a floating-point type, got ")
           << type;
  return success();
}

LogicalResult WriteBufferOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto buffer =
      symbols.lookupNearestSymbolFrom<BufferOp>(*this, getTargetAttr());
  if (!buffer || !buffer.getMutableBuffer()) // C1
    return emitOpError("expected a mutable buffer, got ") << getTargetAttr();
  if (buffer.getType() != getValue().getType()) // C1
    return emitOpError("expected type ")
           << buffer.getType() << ", got " << getValue().getType();
  return success();
}
