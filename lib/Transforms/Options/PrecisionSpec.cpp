// SPDX-License-Identifier: Apache-2.0
#include "fcdp/Transforms/Options/PrecisionSpec.h"

using namespace mlir;
using namespace fcdp;

llvm::Expected<Type> fcdp::parseMaster(StringRef spec, MLIRContext *context) {
  if (spec == "f32")
    return Float32Type::get(context);
  if (spec == "model")
    return Type();
  return llvm::createStringError("expected 'model' or 'f32', got '" + spec +
                                 "'");
}

llvm::Expected<Type> fcdp::parseReduceType(StringRef spec,
                                           MLIRContext *context) {
  if (spec == "model")
    return Type();
  if (spec == "f32")
    return Float32Type::get(context);
  if (spec == "bf16")
    return BFloat16Type::get(context);
  if (spec == "f16")
    return Float16Type::get(context);
  return llvm::createStringError(
      "expected 'model', 'f32', 'bf16' or 'f16', got '" + spec + "'");
}

llvm::Expected<bool> fcdp::parseLossScale(StringRef spec) {
  if (spec == "on" || spec == "off")
    return spec == "on";
  return llvm::createStringError("expected 'off' or 'on', got '" + spec + "'");
}
