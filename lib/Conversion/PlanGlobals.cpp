// SPDX-License-Identifier: Apache-2.0
//
// Adds the data that an object exports.

#include "fcdp/Conversion/Plan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "runtime/include/fcdp/runtime.h"

using namespace mlir;
using namespace fcdp;

/// FlatBuffers reads words of 8 bytes, and kernels read constants with vector
/// instructions of any width.
static constexpr uint64_t kAlignment = 64;

LogicalResult fcdp::addPlanGlobals(ModuleOp module,
                                   const CompiledPlan &compiled) {
  auto builder = OpBuilder::atBlockEnd(module.getBody());
  auto emit = [&](StringRef name, Type type, Attribute value,
                  uint64_t alignment) {
    LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                           LLVM::Linkage::External, name, value, alignment);
  };
  auto emitNumber = [&](StringRef name, Type type, int64_t value) {
    emit(name, type, builder.getIntegerAttr(type, value), /*alignment=*/0);
  };
  auto emitBytes = [&](StringRef name, StringRef bytes) {
    emit(name, LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size()),
         builder.getStringAttr(bytes), kAlignment);
  };
  std::string plan = packPlan(compiled.plan);
  emitNumber("fcdp_abi_version", builder.getI32Type(), FCDP_ABI_VERSION);
  emitBytes("fcdp_plan", plan);
  emitNumber("fcdp_plan_size", builder.getI64Type(), plan.size());
  emitBytes("fcdp_plan_hash", hashBytes(plan));
  emitBytes("fcdp_constants", compiled.constants);
  emitNumber("fcdp_constants_size", builder.getI64Type(),
             compiled.constants.size());
  return addKernels(module, compiled.plan);
}
