// SPDX-License-Identifier: Apache-2.0
//
// The code of a compiled step: calls that carry an index. Built in one pass
// over the operations; rewrite patterns would only visit them more often.

#include "fcdp/Conversion/Manifest.h"
#include "fcdp/Conversion/Passes.h"

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2Tensors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "runtime/include/fcdp/runtime.h"

namespace fcdp {
#define GEN_PASS_DEF_CONVERTFCDPTOLLVMPASS
#include "fcdp/Conversion/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
/// Where constants may be read with vector instructions of any width.
constexpr uint64_t kConstantsAlignment = 64;

/// Appends the step's code and data to a module.
class StepEmitter {
public:
  explicit StepEmitter(ModuleOp module)
      : module(module), declarations(module.getContext()),
        builder(OpBuilder::atBlockEnd(module.getBody())),
        pointer(LLVM::LLVMPointerType::get(module.getContext())),
        voidType(LLVM::LLVMVoidType::get(module.getContext())) {
    // In front of what is there, in the order of use.
    declarations.setInsertionPoint(&module.getBody()->front());
  }

  void emitFunctions(ArrayRef<RuntimeCall> calls);
  void emitNumber(StringRef name, Type type, int64_t value);
  void emitBytes(StringRef name, StringRef bytes, uint64_t alignment);

private:
  LLVM::LLVMFuncOp getEntryPoint(StringRef kind);
  LLVM::LLVMFuncOp startFunction(func::FuncOp function);

  ModuleOp module;
  /// At the module's begin and end.
  OpBuilder declarations, builder;
  Type pointer, voidType;
  llvm::StringMap<LLVM::LLVMFuncOp> entryPoints;
};

/// Reads constants from an archive, opened at the first: most steps have none.
class ArchiveReader {
public:
  explicit ArchiveReader(StringRef path) : path(path) {}

  llvm::Expected<std::vector<char>> operator()(StringRef name);

private:
  std::string path;
  std::optional<Pt2Tensors> tensors;
};

class ConvertFcdpToLLVMPass
    : public fcdp::impl::ConvertFcdpToLLVMPassBase<ConvertFcdpToLLVMPass> {
public:
  using ConvertFcdpToLLVMPassBase::ConvertFcdpToLLVMPassBase;
  void runOnOperation() override;
};
} // namespace

/// The declaration of `void fcdp_rt_KIND(step, op)`.
LLVM::LLVMFuncOp StepEmitter::getEntryPoint(StringRef kind) {
  LLVM::LLVMFuncOp &function = entryPoints[kind];
  if (!function) {
    auto type =
        LLVM::LLVMFunctionType::get(voidType, {pointer, builder.getI64Type()});
    function = LLVM::LLVMFuncOp::create(declarations, module.getLoc(),
                                        ("fcdp_rt_" + kind).str(), type);
  }
  return function;
}

/// Makes `void fcdp_ROLE(step)` and goes into its body.
LLVM::LLVMFuncOp StepEmitter::startFunction(func::FuncOp function) {
  Role role = function->getAttrOfType<RoleAttr>(kRoleAttr).getValue();
  auto result = LLVM::LLVMFuncOp::create(
      builder, function.getLoc(), ("fcdp_" + stringifyRole(role)).str(),
      LLVM::LLVMFunctionType::get(voidType, {pointer}));
  builder.setInsertionPointToStart(result.addEntryBlock(builder));
  return result;
}

void StepEmitter::emitFunctions(ArrayRef<RuntimeCall> calls) {
  size_t index = 0;
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    LLVM::LLVMFuncOp result = startFunction(function);
    for (; index < calls.size() &&
           calls[index].op->getParentOp() == function.getOperation();
         ++index) {
      Location loc = calls[index].op->getLoc();
      Value number = LLVM::ConstantOp::create(builder, loc,
                                              builder.getI64IntegerAttr(index));
      LLVM::CallOp::create(builder, loc, getEntryPoint(calls[index].kind),
                           ValueRange{result.getArgument(0), number});
    }
    LLVM::ReturnOp::create(builder, function.getLoc(), ValueRange());
    builder.setInsertionPointToEnd(module.getBody());
  }
}

void StepEmitter::emitNumber(StringRef name, Type type, int64_t value) {
  LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::External, name,
                         builder.getIntegerAttr(type, value));
}

void StepEmitter::emitBytes(StringRef name, StringRef bytes,
                            uint64_t alignment) {
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
  LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::External, name,
                         builder.getStringAttr(bytes), alignment);
}

/// What stood in the module before it was converted.
static void eraseAll(ModuleOp module, ArrayRef<Operation *> ops) {
  for (Operation *op : llvm::reverse(ops))
    op->erase();
  for (StringRef name :
       {StringRef(kPhaseAttr), StringRef(kArchiveAttr), StringRef(kTargetAttr),
        StringRef(kStrategyAttr), StringRef(kMicroBatchesAttr),
        StringRef(kPrefetchAttr), StringRef(kPrefetchedAttr),
        StringRef(kReductionsAttr)})
    module->removeAttr(name);
}

llvm::Expected<std::vector<char>> ArchiveReader::operator()(StringRef name) {
  if (!tensors) {
    if (path.empty())
      return llvm::createStringError("the module names no archive in '" +
                                     kArchiveAttr +
                                     "', and no other archive is given");
    llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(path);
    if (!opened)
      return llvm::createStringError("'" + path +
                                     "': " + toString(opened.takeError()));
    tensors.emplace(std::move(*opened));
  }
  return tensors->readTensor(name);
}

void ConvertFcdpToLLVMPass::runOnOperation() {
  ModuleOp module = getOperation();
  std::string path = archive;
  if (auto attr = module->getAttrOfType<StringAttr>(kArchiveAttr);
      attr && path.empty())
    path = attr.str();
  ArchiveReader reader(path);
  FailureOr<Manifest> manifest = buildManifest(module, reader);
  if (failed(manifest))
    return signalPassFailure();
  SmallVector<Operation *> planned;
  for (Operation &op : *module.getBody())
    planned.push_back(&op);

  StepEmitter emitter(module);
  emitter.emitFunctions(manifest->calls);
  Builder builder(&getContext());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  emitter.emitNumber("fcdp_abi_version", i32, FCDP_ABI_VERSION);
  emitter.emitBytes("fcdp_manifest", manifest->text, /*alignment=*/1);
  emitter.emitNumber("fcdp_manifest_size", i64, manifest->text.size());
  emitter.emitBytes("fcdp_constants", manifest->constants, kConstantsAlignment);
  emitter.emitNumber("fcdp_constants_size", i64, manifest->constants.size());
  eraseAll(module, planned);
}
