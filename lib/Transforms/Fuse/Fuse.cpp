// SPDX-License-Identifier: Apache-2.0
//
// Joins pointwise calls to clusters, and replaces each by a kernel.

#include "Fuse/FusedCalls.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Fcdp/Kernels.h"
#include "fcdp/Support/Units.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Remarks.h"

namespace fcdp {
#define GEN_PASS_DEF_FUSEPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

namespace {
class FusePass : public fcdp::impl::FusePassBase<FusePass> {
public:
  using FusePassBase::FusePassBase;
  void runOnOperation() override;

private:
  LogicalResult fuseAll();
};

/// Makes the kernels of a module, each once.
class KernelMaker {
public:
  explicit KernelMaker(ModuleOp module) : module(module), symbols(module) {
    for (auto kernel : module.getOps<KernelOp>())
      kernels.try_emplace(printBody(kernel), kernel);
  }

  /// Replaces the calls of a cluster, which follow each other.
  void replace(const FusedCalls &cluster);

  size_t count() const { return kernels.size(); }

private:
  static std::string printBody(KernelOp kernel);
  KernelOp make(const FusedCalls &cluster);

  ModuleOp module;
  SymbolTable symbols;
  llvm::StringMap<KernelOp> kernels;
};
} // namespace

/// Returns the kernel as text, without its name.
std::string KernelMaker::printBody(KernelOp kernel) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << kernel.getMaps();
  for (Type type : kernel.getBody().front().getArgumentTypes())
    stream << ' ' << type;
  for (Operation &op : kernel.getBody().front()) {
    stream << '\n';
    op.print(stream, OpPrintingFlags().useLocalScope());
  }
  return text;
}

/// The most operators whose names a kernel's name has.
static constexpr size_t kMostNames = 4;

static std::string nameOf(const FusedCalls &cluster) {
  std::string name;
  size_t rest = 0;
  for (const PointwiseCall &member : cluster.members) {
    StringRef part = member.name.ltrim('_');
    if (&member - cluster.members.begin() >= int64_t(kMostNames)) {
      ++rest;
      continue;
    }
    name += (name.empty() ? "" : "_") + part.str();
  }
  return rest ? name + "_" + std::to_string(rest) + "_more" : name;
}

KernelOp KernelMaker::make(const FusedCalls &cluster) {
  MLIRContext *context = module.getContext();
  OpBuilder builder(context);
  SmallVector<Attribute> maps;
  for (KernelMap map : cluster.maps)
    maps.push_back(KernelMapAttr::get(context, map));
  Location location = module.getLoc();
  auto kernel =
      KernelOp::create(builder, location, kKernelSymbol.str() + nameOf(cluster),
                       builder.getArrayAttr(maps));
  Block &body = kernel.getBody().emplaceBlock();
  llvm::DenseMap<Value, Value> elements;
  for (Value operand : cluster.operands)
    elements[operand] = body.addArgument(
        cast<RankedTensorType>(operand.getType()).getElementType(), location);
  builder.setInsertionPointToEnd(&body);
  for (const PointwiseCall &member : cluster.members) {
    SmallVector<Value> operands;
    for (Value operand : member.call->getOperands())
      operands.push_back(elements.lookup(operand));
    elements[member.call->getResult(0)] =
        emitElement(builder, member.call, operands);
  }
  SmallVector<Value> results;
  for (Value result : cluster.results)
    results.push_back(elements.lookup(result));
  YieldOp::create(builder, location, results);
  auto [known, isNew] = kernels.try_emplace(printBody(kernel), kernel);
  if (!isNew) {
    kernel.erase();
    return known->second;
  }
  // In front of the functions.
  Block::iterator place = module.getBody()->begin();
  while (place != module.getBody()->end() && !isa<func::FuncOp>(*place))
    ++place;
  symbols.insert(kernel, place);
  return kernel;
}

/// Symbols that are not unique get a suffix with '_'.
void KernelMaker::replace(const FusedCalls &cluster) {
  KernelOp kernel = make(cluster);
  CallOp last = CallOp(cluster.members.back().call);
  OpBuilder builder(last);
  MLIRContext *context = module.getContext();
  SmallVector<Location> locations;
  for (const PointwiseCall &member : cluster.members)
    locations.push_back(CallOp(member.call).getLoc());
  SmallVector<int64_t> indices =
      llvm::to_vector(llvm::seq<int64_t>(0, cluster.operands.size()));
  SmallVector<Type> types;
  for (Value result : cluster.results)
    types.push_back(result.getType());
  auto call = CallOp::create(
      builder, last.getLoc(), types,
      builder.getStringAttr("fcdp." + kernel.getSymName()), cluster.operands,
      builder.getStrArrayAttr({"operands"}),
      builder.getArrayAttr({aten::OperandListAttr::get(context, indices)}),
      /*undefined=*/nullptr);
  cluster.copyAttributes(call);
  for (auto [old, made] : llvm::zip_equal(cluster.results, call.getResults()))
    Value(old).replaceAllUsesWith(made);
  for (const PointwiseCall &member : llvm::reverse(cluster.members))
    CallOp(member.call).erase();
}

static void reportFusion(ModuleOp module, size_t calls, size_t clusters,
                         size_t kernels, int64_t saved) {
  if (!module.getContext()->getRemarkEngine())
    return;
  remark::passed(module.getLoc(),
                 remark::RemarkOpts::name("fuse").category("fcdp-fuse"))
      << llvm::formatv("fuse: {0} pointwise operators became {1} calls of {2} "
                       "kernels, which access {3} less",
                       calls, clusters, kernels, formatBytes(saved))
             .str();
}

LogicalResult FusePass::fuseAll() {
  ModuleOp module = getOperation();
  if (failed(requireSteps(module)))
    return failure();
  if (getTarget(module) != Target::cpu)
    return module.emitError("fuse: expected a step for the target 'cpu', got '")
           << stringifyTarget(getTarget(module))
           << "', for which kernels are not generated yet; use fuse=off";
  KernelMaker maker(module);
  size_t calls = 0, clusters = 0;
  int64_t saved = 0;
  for (auto function : module.getOps<func::FuncOp>())
    fuseCalls(function, [&](const FusedCalls &cluster) {
      calls += cluster.members.size();
      ++clusters;
      saved += cluster.savedBytes();
      maker.replace(cluster);
    });
  setFuse(module, "exact");
  reportFusion(module, calls, clusters, maker.count(), saved);
  return success();
}

void FusePass::runOnOperation() {
  if (fuse == "off")
    return;
  if (fuse != "exact") {
    getOperation().emitError("fuse: expected 'off' or 'exact', got '")
        << fuse << "'";
    return signalPassFailure();
  }
  if (failed(fuseAll()))
    signalPassFailure();
}
