// SPDX-License-Identifier: Apache-2.0
//
// Each function is a loop over vectors of 16 elements, and a masked vector at
// its end. It does the operations of the kernel's body in their order, without
// fast math and without contraction. So its bits depend neither on the
// processor's level nor on the part of the elements that it computes.

#include "Kernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"

using namespace fcdp;
namespace arith = mlir::arith;
namespace math = mlir::math;

/// The elements of a vector on every processor.
static constexpr unsigned kLanes = 16;

namespace {
/// The registers and instructions that a function may use.
struct Level {
  llvm::StringLiteral suffix, cpu;
};

/// Builds the function of one kernel.
class FunctionBuilder {
public:
  FunctionBuilder(llvm::Module &module, KernelOp kernel, const Level &level);
  void build();

private:
  using Value = llvm::Value *;

  llvm::Type *floats() { return vectorOf(builder.getFloatTy()); }
  llvm::Type *words() { return vectorOf(builder.getInt32Ty()); }
  llvm::Type *halves() { return vectorOf(builder.getInt16Ty()); }
  static llvm::Type *vectorOf(llvm::Type *element) {
    return llvm::FixedVectorType::get(element, kLanes);
  }
  Value number(double value) { return llvm::ConstantFP::get(floats(), value); }
  Value word(int32_t value) {
    return llvm::ConstantInt::get(words(), value, /*IsSigned=*/true);
  }
  Value call(llvm::Intrinsic::ID id, llvm::ArrayRef<Value> operands) {
    return builder.CreateIntrinsic(id, {floats()}, operands);
  }
  Value fma(Value a, Value b, Value c) {
    return call(llvm::Intrinsic::fma, {a, b, c});
  }

  KernelMap getMap(size_t operand) {
    return llvm::cast<KernelMapAttr>(kernel.getMaps()[operand]).getValue();
  }
  llvm::Type *elementOf(mlir::Type type) {
    return type.isBF16() ? builder.getInt16Ty() : builder.getFloatTy();
  }
  static llvm::Align alignOf(mlir::Type type) {
    return llvm::Align(type.isBF16() ? 2 : 4);
  }
  Value pointerTo(size_t tensor, mlir::Type type, Value element) {
    return builder.CreateInBoundsGEP(elementOf(type), pointers[tensor],
                                     element);
  }

  void loadPointers();
  Value widen(mlir::Type type, Value elements);
  Value narrow(mlir::Type type, Value value);
  Value loadOne(size_t operand, Value element);
  Value load(size_t operand, Value row, Value offset, Value column, Value mask);
  void store(size_t result, Value value, Value offset, Value mask);
  Value emit(mlir::Operation &op, llvm::ArrayRef<Value> operands);
  Value emitExp(Value x);
  Value roundToBf16(Value value);
  void emitBody(Value row, Value start, Value column, Value mask);
  void emitElements(Value row, Value start, Value count);
  void emitLoop(Value begin, Value end, int64_t step,
                llvm::function_ref<void(Value)> body);

  KernelOp kernel;
  mlir::Block &body;
  llvm::IRBuilder<> builder;
  llvm::Function *function;
  /// The memory of operands and results.
  llvm::SmallVector<Value> pointers;
  /// Operands with the map `scalar`, or that are one element of the row.
  llvm::SmallVector<Value> uniform;
};
} // namespace

// Names of levels are part of the objects' interface (fcdp/runtime.h).
static constexpr Level kLevels[] = {{"_v3", "x86-64-v3"}, {"_v4", "x86-64-v4"}};

FunctionBuilder::FunctionBuilder(llvm::Module &module, KernelOp kernel,
                                 const Level &level)
    : kernel(kernel), body(kernel.getBody().front()),
      builder(module.getContext()) {
  llvm::Type *count = builder.getInt64Ty();
  auto *type = llvm::FunctionType::get(
      builder.getVoidTy(), {builder.getPtrTy(), count, count, count},
      /*isVarArg=*/false);
  function = llvm::Function::Create(
      type, llvm::Function::ExternalLinkage,
      ("fcdp_kernel_" + kernel.getShortName() + level.suffix).str(), module);
  function->addFnAttr("target-cpu", level.cpu);
  function->addFnAttr("prefer-vector-width", "512");
  function->setDoesNotThrow();
  builder.SetInsertPoint(
      llvm::BasicBlock::Create(module.getContext(), "entry", function));
}

void FunctionBuilder::loadPointers() {
  size_t count = body.getNumArguments() + kernel.getResultElements().size();
  for (size_t i = 0; i < count; ++i) {
    Value place = builder.CreateConstInBoundsGEP1_64(builder.getPtrTy(),
                                                     function->getArg(0), i);
    pointers.push_back(builder.CreateLoad(builder.getPtrTy(), place));
  }
}

/// Returns elements as f32, or, for bf16, as the upper half of words. The
/// processors' own instructions for bf16 flush denormal numbers.
llvm::Value *FunctionBuilder::widen(mlir::Type type, Value elements) {
  if (!type.isBF16())
    return elements;
  return builder.CreateShl(builder.CreateZExt(elements, words()), word(16));
}

llvm::Value *FunctionBuilder::narrow(mlir::Type type, Value value) {
  if (!type.isBF16())
    return value;
  return builder.CreateTrunc(builder.CreateLShr(value, word(16)), halves());
}

/// Returns a vector of one element.
llvm::Value *FunctionBuilder::loadOne(size_t operand, Value element) {
  mlir::Type type = body.getArgument(operand).getType();
  Value one = builder.CreateAlignedLoad(
      elementOf(type), pointerTo(operand, type, element), alignOf(type));
  return widen(type, builder.CreateVectorSplat(kLanes, one));
}

llvm::Value *FunctionBuilder::load(size_t operand, Value row, Value offset,
                                   Value column, Value mask) {
  if (uniform[operand])
    return uniform[operand];
  mlir::Type type = body.getArgument(operand).getType();
  Value element = getMap(operand) == KernelMap::row ? column : offset;
  Value place = pointerTo(operand, type, element);
  llvm::Type *vector = vectorOf(elementOf(type));
  if (!mask)
    return widen(type, builder.CreateAlignedLoad(vector, place, alignOf(type)));
  return widen(type,
               builder.CreateMaskedLoad(vector, place, alignOf(type), mask,
                                        llvm::Constant::getNullValue(vector)));
}

void FunctionBuilder::store(size_t result, Value value, Value offset,
                            Value mask) {
  mlir::Type type = kernel.getResultElements()[result];
  Value place = pointerTo(body.getNumArguments() + result, type, offset);
  value = narrow(type, value);
  if (mask)
    builder.CreateMaskedStore(value, place, alignOf(type), mask);
  else
    builder.CreateAlignedStore(value, place, alignOf(type));
}

/// Rounds to nearest, ties to even. NaN becomes ATen's NaN. The result is the
/// upper half of words.
llvm::Value *FunctionBuilder::roundToBf16(Value value) {
  Value bits = builder.CreateBitCast(value, words());
  Value odd = builder.CreateAnd(builder.CreateLShr(bits, word(16)), word(1));
  Value rounded = builder.CreateAdd(bits, builder.CreateAdd(odd, word(0x7fff)));
  Value isNan = builder.CreateFCmpUNO(value, value);
  Value kept = builder.CreateSelect(isNan, word(-1), rounded);
  return builder.CreateAnd(kept, word(static_cast<int32_t>(0xffff0000)));
}

/// Computes Sleef's expf_u10 (Boost license), which ATen's vectorized kernels
/// call. All 2^32 values were compared (benchmarks/kernels).
llvm::Value *FunctionBuilder::emitExp(Value x) {
  Value q = call(
      llvm::Intrinsic::roundeven,
      {builder.CreateFMul(
          x,
          number(
              1.442695040888963407359924681001892137426645954152985934135449406931f))});
  Value z = fma(q, number(-0.693145751953125f), x);
  z = fma(q, number(-1.428606765330187045e-06f), z);
  Value u = number(0.000198527617612853646278381f);
  for (float c :
       {0.00139304355252534151077271f, 0.00833336077630519866943359f,
        0.0416664853692054748535156f, 0.166666671633720397949219f, 0.5f})
    u = fma(u, z, number(c));
  u = builder.CreateFAdd(number(1), fma(builder.CreateFMul(z, z), u, z));
  // The conversion of a large number has no value. Later selects do not read
  // it, and NaN times any number is NaN.
  Value n = builder.CreateFreeze(builder.CreateFPToSI(q, words()));
  Value half = builder.CreateAShr(n, word(1));
  auto power = [&](Value exponent) {
    Value bits =
        builder.CreateShl(builder.CreateAdd(exponent, word(127)), word(23));
    return builder.CreateBitCast(bits, floats());
  };
  u = builder.CreateFMul(builder.CreateFMul(u, power(half)),
                         power(builder.CreateSub(n, half)));
  u = builder.CreateSelect(builder.CreateFCmpOLT(x, number(-104)), number(0),
                           u);
  return builder.CreateSelect(builder.CreateFCmpOLT(number(100), x),
                              llvm::ConstantFP::getInfinity(floats()), u);
}

llvm::Value *FunctionBuilder::emit(mlir::Operation &op,
                                   llvm::ArrayRef<Value> operands) {
  return llvm::TypeSwitch<mlir::Operation *, Value>(&op)
      .Case([&](arith::ConstantOp constant) {
        auto value = llvm::cast<mlir::FloatAttr>(constant.getValue());
        return llvm::ConstantFP::get(floats(), value.getValue());
      })
      .Case([&](arith::AddFOp) {
        return builder.CreateFAdd(operands[0], operands[1]);
      })
      .Case([&](arith::SubFOp) {
        return builder.CreateFSub(operands[0], operands[1]);
      })
      .Case([&](arith::MulFOp) {
        return builder.CreateFMul(operands[0], operands[1]);
      })
      .Case([&](arith::DivFOp) {
        return builder.CreateFDiv(operands[0], operands[1]);
      })
      .Case([&](arith::NegFOp) { return builder.CreateFNeg(operands[0]); })
      .Case([&](arith::ExtFOp) {
        return builder.CreateBitCast(operands[0], floats());
      })
      .Case([&](arith::TruncFOp) { return roundToBf16(operands[0]); })
      .Case([&](math::FmaOp) {
        return fma(operands[0], operands[1], operands[2]);
      })
      .Case([&](math::SqrtOp) {
        return call(llvm::Intrinsic::sqrt, {operands[0]});
      })
      .Case([&](math::ExpOp) { return emitExp(operands[0]); });
}

/// Computes 16 elements from `column` of a row on, which begins at element
/// `start`.
void FunctionBuilder::emitBody(Value row, Value start, Value column,
                               Value mask) {
  Value offset = builder.CreateAdd(start, column);
  llvm::DenseMap<mlir::Value, Value> values;
  for (mlir::BlockArgument argument : body.getArguments())
    values[argument] = load(argument.getArgNumber(), row, offset, column, mask);
  for (mlir::Operation &op : body.without_terminator()) {
    llvm::SmallVector<Value> operands;
    for (mlir::Value operand : op.getOperands())
      operands.push_back(values.lookup(operand));
    values[op.getResult(0)] = emit(op, operands);
  }
  for (auto [i, value] : llvm::enumerate(body.getTerminator()->getOperands()))
    store(i, values.lookup(value), offset, mask);
}

/// Emits a loop over [begin, end), whose last step may be past its end.
void FunctionBuilder::emitLoop(Value begin, Value end, int64_t step,
                               llvm::function_ref<void(Value)> body) {
  llvm::LLVMContext &context = builder.getContext();
  auto *head = llvm::BasicBlock::Create(context, "head", function);
  auto *inside = llvm::BasicBlock::Create(context, "inside", function);
  auto *after = llvm::BasicBlock::Create(context, "after", function);
  llvm::BasicBlock *before = builder.GetInsertBlock();
  builder.CreateBr(head);
  builder.SetInsertPoint(head);
  llvm::PHINode *index = builder.CreatePHI(builder.getInt64Ty(), 2);
  index->addIncoming(begin, before);
  builder.CreateCondBr(builder.CreateICmpSLT(index, end), inside, after);
  builder.SetInsertPoint(inside);
  body(index);
  Value next = builder.CreateNSWAdd(index, builder.getInt64(step));
  index->addIncoming(next, builder.GetInsertBlock());
  builder.CreateBr(head);
  builder.SetInsertPoint(after);
}

/// Computes `count` elements from `start` on, which are in row `row`.
void FunctionBuilder::emitElements(Value row, Value start, Value count) {
  for (size_t i = 0; i < body.getNumArguments(); ++i)
    if (getMap(i) == KernelMap::column)
      uniform[i] = loadOne(i, row);
  Value whole = builder.CreateAnd(count, builder.getInt64(-int64_t(kLanes)));
  emitLoop(builder.getInt64(0), whole, kLanes, [&](Value column) {
    emitBody(row, start, column, /*mask=*/nullptr);
  });
  emitLoop(whole, count, kLanes, [&](Value column) {
    Value rest = builder.CreateTrunc(builder.CreateSub(count, column),
                                     builder.getInt32Ty());
    llvm::SmallVector<llvm::Constant *> lanes;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      lanes.push_back(builder.getInt32(lane));
    Value mask = builder.CreateICmpULT(llvm::ConstantVector::get(lanes),
                                       builder.CreateVectorSplat(kLanes, rest));
    emitBody(row, start, column, mask);
  });
}

void FunctionBuilder::build() {
  loadPointers();
  uniform.resize(body.getNumArguments());
  bool hasRows = false;
  for (size_t i = 0; i < body.getNumArguments(); ++i) {
    KernelMap map = getMap(i);
    hasRows |= map == KernelMap::row || map == KernelMap::column;
    if (map == KernelMap::scalar)
      uniform[i] = loadOne(i, builder.getInt64(0));
  }
  Value begin = function->getArg(1), end = function->getArg(2),
        width = function->getArg(3);
  if (hasRows)
    emitLoop(begin, end, 1, [&](Value row) {
      emitElements(row, builder.CreateMul(row, width), width);
    });
  else
    emitElements(/*row=*/nullptr, begin, builder.CreateSub(end, begin));
  builder.CreateRetVoid();
}

/// Runs LLVM's passes of level O3.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(&machine);
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(components);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, components, modules);
  passes.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3)
      .run(module, modules);
}

llvm::Error fcdp::addKernelCode(llvm::Module &module,
                                llvm::ArrayRef<KernelOp> kernels,
                                llvm::TargetMachine &machine) {
  if (kernels.empty())
    return llvm::Error::success();
  if (machine.getTargetTriple().getArch() != llvm::Triple::x86_64)
    return llvm::createStringError(
        "the step has kernels, whose code is generated for x86-64 only, but "
        "this machine is '" +
        machine.getTargetTriple().str() + "'; compile it with --fuse=off");
  for (KernelOp kernel : kernels)
    for (const Level &level : kLevels)
      FunctionBuilder(module, kernel, level).build();
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (llvm::verifyModule(module, &stream))
    return llvm::createStringError("the code of kernels is not valid: " +
                                   message);
  optimize(module, machine);
  return llvm::Error::success();
}
