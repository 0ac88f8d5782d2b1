// SPDX-License-Identifier: Apache-2.0

#include "PlanValues.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fcdp;

plan::Buf fcdp::toBuf(BufferAttr buffer) {
  return plan::Buf(findByName<plan::Arena>(stringifyArena(buffer.getArena()),
                                           plan::EnumNamesArena()),
                   buffer.getOffset(), buffer.getBytes(),
                   buffer.getNodeStride(), buffer.getLocalStride());
}

LogicalResult fcdp::setDType(plan::DType &out, Type type, Operation *op) {
  auto found = llvm::StringSwitch<std::optional<plan::DType>>(
                   llvm::formatv("{0}", type).str())
                   .Case("f16", plan::DType::f16)
                   .Case("bf16", plan::DType::bf16)
                   .Case("f32", plan::DType::f32)
                   .Case("f64", plan::DType::f64)
                   .Case("i8", plan::DType::i8)
                   .Case("i16", plan::DType::i16)
                   .Case("i32", plan::DType::i32)
                   .Case("i64", plan::DType::i64)
                   .Case("ui8", plan::DType::u8)
                   .Case("i1", plan::DType::bool_)
                   .Case("complex<f32>", plan::DType::c64)
                   .Case("complex<f64>", plan::DType::c128)
                   .Default(std::nullopt);
  if (!found)
    return op->emitOpError("the runtime has no data type ")
           << type << "; it has f16, bf16, f32, f64, i8, i16, i32, i64, ui8, "
           << "i1, complex<f32> and complex<f64>";
  out = *found;
  return success();
}

/// Fills in the missing parts of `out`, from the outermost location inwards.
void fcdp::setLocation(plan::OpT &out, Location location) {
  if (auto file = dyn_cast<FileLineColLoc>(location)) {
    if (out.loc.empty() && file.getLine() != 0)
      out.loc =
          (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
  } else if (auto name = dyn_cast<NameLoc>(location)) {
    if (out.modulePath.empty())
      out.modulePath = name.getName().str();
    setLocation(out, name.getChildLoc());
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    setLocation(out, call.getCallee());
    setLocation(out, call.getCaller());
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      setLocation(out, part);
  }
}
