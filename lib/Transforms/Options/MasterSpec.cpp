// SPDX-License-Identifier: Apache-2.0
#include "fcdp/Transforms/Options/MasterSpec.h"

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

bool fcdp::needsMaster(Type storage, Type master) {
  return master && isa<FloatType>(storage) &&
         elementBytes(storage) < elementBytes(master);
}
