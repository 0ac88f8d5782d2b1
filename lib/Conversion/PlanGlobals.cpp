// SPDX-License-Identifier: Apache-2.0
//
// The data that an object exports.

#include "fcdp/Conversion/Plan.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "runtime/include/fcdp/runtime.h"

using namespace mlir;
using namespace fcdp;

/// FlatBuffers reads words of 8 bytes, and kernels read constants with vector
/// instructions of any width.
static constexpr uint64_t kAlignment = 64;

namespace {
/// Appends constants to a module.
class GlobalEmitter {
public:
  explicit GlobalEmitter(ModuleOp module)
      : loc(module.getLoc()), builder(OpBuilder::atBlockEnd(module.getBody())) {
  }

  void emitNumber(StringRef name, Type type, int64_t value) {
    emit(name, type, builder.getIntegerAttr(type, value), /*alignment=*/0);
  }
  void emitBytes(StringRef name, StringRef bytes) {
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    emit(name, type, builder.getStringAttr(bytes), kAlignment);
  }

private:
  void emit(StringRef name, Type type, Attribute value, uint64_t alignment) {
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::External, name, value, alignment);
  }

  Location loc;
  OpBuilder builder;
};
} // namespace

void fcdp::addPlanGlobals(ModuleOp module, const CompiledPlan &compiled) {
  GlobalEmitter emitter(module);
  Builder builder(module.getContext());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  std::string plan = packPlan(compiled.plan);
  emitter.emitNumber("fcdp_abi_version", i32, FCDP_ABI_VERSION);
  emitter.emitBytes("fcdp_plan", plan);
  emitter.emitNumber("fcdp_plan_size", i64, plan.size());
  emitter.emitBytes("fcdp_plan_hash", hashBytes(plan));
  emitter.emitBytes("fcdp_constants", compiled.constants);
  emitter.emitNumber("fcdp_constants_size", i64, compiled.constants.size());
}
