// SPDX-License-Identifier: Apache-2.0

#include "Writing.h"

using namespace mlir;
using namespace fcdp;

void fcdp::writeBufferKeys(llvm::json::OStream &json, BufferAttr buffer) {
  json.attribute("arena", stringifyArena(buffer.getArena()));
  json.attribute("offset", buffer.getOffset());
  json.attribute("bytes", buffer.getBytes());
  json.attribute("node_stride", buffer.getNodeStride());
  json.attribute("local_stride", buffer.getLocalStride());
}

void fcdp::writeBuffer(llvm::json::OStream &json, BufferAttr buffer) {
  json.object([&] { writeBufferKeys(json, buffer); });
}

void fcdp::writeBuffer(llvm::json::OStream &json, StringRef key,
                       BufferAttr buffer) {
  json.attributeObject(key, [&] { writeBufferKeys(json, buffer); });
}

void fcdp::writeShape(llvm::json::OStream &json, RankedTensorType type) {
  json.attributeArray("shape", [&] {
    for (int64_t extent : type.getShape())
      json.value(extent);
  });
}

/// The name of a data type, or an empty one.
static StringRef getName(Type type) {
  if (type.isF16())
    return "f16";
  if (type.isBF16())
    return "bf16";
  if (type.isF32())
    return "f32";
  if (type.isF64())
    return "f64";
  if (type.isSignlessInteger(8))
    return "i8";
  if (type.isSignlessInteger(16))
    return "i16";
  if (type.isSignlessInteger(32))
    return "i32";
  if (type.isSignlessInteger(64))
    return "i64";
  if (type.isUnsignedInteger(8))
    return "u8";
  if (type.isSignlessInteger(1))
    return "bool";
  return "";
}

LogicalResult fcdp::writeDType(llvm::json::OStream &json, StringRef key,
                               Type type, Operation *op) {
  StringRef name = getName(type);
  if (name.empty())
    return op->emitOpError("the runtime has no data type ")
           << type << "; it has f16, bf16, f32, f64, i8, i16, i32, i64, ui8 "
           << "and i1";
  json.attribute(key, name);
  return success();
}

void fcdp::writeNumber(llvm::json::OStream &json, double number) {
  if (std::isnan(number))
    json.value("NaN");
  else if (std::isinf(number))
    json.value(number > 0 ? "Infinity" : "-Infinity");
  else
    json.value(number);
}

namespace {
struct Origin {
  std::string line;
  StringRef module;
};
} // namespace

/// Fills in what is missing in `origin`, from the outermost location inwards.
static void find(Location location, Origin &origin) {
  if (auto file = dyn_cast<FileLineColLoc>(location)) {
    if (origin.line.empty() && file.getLine() != 0)
      origin.line =
          (file.getFilename().getValue() + ":" + std::to_string(file.getLine()))
              .str();
  } else if (auto name = dyn_cast<NameLoc>(location)) {
    if (origin.module.empty())
      origin.module = name.getName().getValue();
    find(name.getChildLoc(), origin);
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    find(call.getCallee(), origin);
    find(call.getCaller(), origin);
  } else if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      find(part, origin);
  }
}

void fcdp::writeLocation(llvm::json::OStream &json, Location location) {
  Origin origin;
  find(location, origin);
  json.attribute("loc", origin.line);
  json.attribute("module", origin.module);
}
