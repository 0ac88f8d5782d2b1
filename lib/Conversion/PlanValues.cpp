// SPDX-License-Identifier: Apache-2.0

#include "PlanValues.h"

using namespace mlir;
using namespace fcdp;

plan::Buf fcdp::toBuf(BufferAttr buffer) {
  plan::Arena arena =
      findByName(stringifyArena(buffer.getArena()), plan::EnumValuesArena(),
                 plan::EnumNamesArena());
  return {arena, static_cast<uint64_t>(buffer.getOffset()),
          static_cast<uint64_t>(buffer.getBytes()),
          static_cast<uint64_t>(buffer.getNodeStride()),
          static_cast<uint64_t>(buffer.getLocalStride())};
}

plan::Stream fcdp::toStream(Stream stream) {
  return findByName(stringifyStream(stream), plan::EnumValuesStream(),
                    plan::EnumNamesStream());
}

plan::Role fcdp::toRole(Role role) {
  return findByName(stringifyRole(role), plan::EnumValuesRole(),
                    plan::EnumNamesRole());
}

std::vector<int64_t> fcdp::toShape(RankedTensorType type) {
  return type.getShape().vec();
}

LogicalResult fcdp::setDType(plan::DType &out, Type type, Operation *op) {
  if (type.isF16())
    out = plan::DType::f16;
  else if (type.isBF16())
    out = plan::DType::bf16;
  else if (type.isF32())
    out = plan::DType::f32;
  else if (type.isF64())
    out = plan::DType::f64;
  else if (type.isSignlessInteger(8))
    out = plan::DType::i8;
  else if (type.isSignlessInteger(16))
    out = plan::DType::i16;
  else if (type.isSignlessInteger(32))
    out = plan::DType::i32;
  else if (type.isSignlessInteger(64))
    out = plan::DType::i64;
  else if (type.isUnsignedInteger(8))
    out = plan::DType::u8;
  else if (type.isSignlessInteger(1))
    out = plan::DType::bool_;
  else
    return op->emitOpError("the runtime has no data type ")
           << type << "; it has f16, bf16, f32, f64, i8, i16, i32, i64, ui8 "
           << "and i1";
  return success();
}

/// Fills in what is missing in `out`, from the outermost location inwards.
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
