// SPDX-License-Identifier: Apache-2.0

#include "CudaAttention.h"
#include "CudaNorms.h"
#include "CudaStatistics.h"
#include "PackedFlash.h"
#include "PackedMasks.h"
#include "Verify/VerifyPhase.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Transforms/PipelineOptions.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

namespace fcdp {
#define GEN_PASS_DEF_RETARGETPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

namespace {
class RetargetPass : public fcdp::impl::RetargetPassBase<RetargetPass> {
public:
  using RetargetPassBase::RetargetPassBase;
  void runOnOperation() override;

private:
  FailureOr<double> getComputeCapability();
  LogicalResult toCuda(func::FuncOp function, double capability);
};
} // namespace

static bool isCpuOnly(StringRef callee) {
  static const llvm::StringSet<> names{
#include "CpuOnlyOps.inc"
  };
  return names.contains(callee);
}

/// Returns the device without its index: `cuda` for `cuda:1`. The launcher
/// decides which device a rank has, not the program.
static StringRef getKind(aten::DeviceAttr device) {
  return device.getName().split(':').first;
}

/// Replaces the device `from` by `to` in all arguments.
static void replaceDevices(Operation *step, StringRef from, StringRef to) {
  auto device = aten::DeviceAttr::get(step->getContext(), to);
  step->walk([&](CallOp call) {
    SmallVector<Attribute> args(call.getArgs().begin(), call.getArgs().end());
    for (Attribute &arg : args)
      if (auto given = dyn_cast<aten::DeviceAttr>(arg);
          given && getKind(given) == from)
        arg = device;
    call.setArgsAttr(ArrayAttr::get(step->getContext(), args));
  });
}

/// Fails if a call can only run on the CPU, or names a device that is neither
/// the CPU nor one without memory.
static LogicalResult checkCalls(func::FuncOp step) {
  bool holds = true;
  step.walk([&](CallOp call) {
    if (isCpuOnly(call.getCallee())) {
      holds = false;
      call.emitError("'") << call.getCallee()
                          << "' has no kernel for CUDA in PyTorch; export the "
                             "model on a CUDA device, where it chooses another "
                             "operator";
    }
    for (Attribute arg : call.getArgs())
      if (auto device = dyn_cast<aten::DeviceAttr>(arg);
          device && getKind(device) != "cpu" && getKind(device) != "meta") {
        holds = false;
        call.emitError("expected a step on the device 'cpu', got the device '")
            << device.getName() << "'";
      }
  });
  return success(holds);
}

FailureOr<double> RetargetPass::getComputeCapability() {
  if (computeCapability > 0)
    return double(computeCapability);
  if (cluster.empty())
    return Device().computeCapability;
  llvm::Expected<Cluster> described = loadCluster(cluster);
  if (!described)
    return getOperation().emitError("cluster: ")
           << toString(described.takeError());
  return described->device.computeCapability;
}

LogicalResult RetargetPass::toCuda(func::FuncOp function, double capability) {
  if (failed(checkCalls(function)))
    return failure();
  flattenPackedAttention(function, capability);
  if (failed(maskPackedAttention(function)) ||
      failed(retargetAttention(function, capability)))
    return failure();
  if (fuseNorms)
    retargetNorms(function);
  retargetStatistics(function);
  replaceDevices(function, "cpu", "cuda");
  return success();
}

void RetargetPass::runOnOperation() {
  ModuleOp module = getOperation();
  FailureOr<func::FuncOp> step = requireImported(module);
  if (failed(step) || failed(checkOptions(module, target, computeCapability)))
    return signalPassFailure();
  Target source = getTarget(module);
  Target wanted = target.empty() ? source : *symbolizeTarget(target);
  if (source == Target::cuda && wanted == Target::cpu) {
    module.emitError("expected the target 'cuda', which the step is made for, "
                     "got 'cpu'; export the model on the CPU, which serves "
                     "both");
    return signalPassFailure();
  }
  FailureOr<double> capability = getComputeCapability();
  if (failed(capability))
    return signalPassFailure();
  for (auto function : module.getOps<func::FuncOp>()) {
    if (source != wanted && failed(toCuda(function, *capability)))
      return signalPassFailure();
    if (wanted == Target::cuda)
      replaceDevices(function, "cuda", "cuda");
  }
  if (wanted == Target::cuda)
    setTarget(module, wanted);
}
