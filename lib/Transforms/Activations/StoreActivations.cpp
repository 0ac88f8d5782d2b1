// SPDX-License-Identifier: Apache-2.0

#include "ActivationModel.h"
#include "Options/ClusterOption.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Planning/Activations/StoredActivations.h"

namespace fcdp {
#define GEN_PASS_DEF_STOREACTIVATIONSPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

namespace {
class StoreActivationsPass
    : public fcdp::impl::StoreActivationsPassBase<StoreActivationsPass> {
public:
  using StoreActivationsPassBase::StoreActivationsPassBase;
  StoreActivationsPass(StoreActivationsPassOptions options,
                       std::optional<Cluster> described)
      : StoreActivationsPassBase(std::move(options)),
        described(std::move(described)) {}
  void runOnOperation() override;

private:
  std::optional<Cluster> described;
};
} // namespace

std::unique_ptr<Pass>
fcdp::createStoreActivationsPass(StoreActivationsPassOptions options,
                                 std::optional<Cluster> described) {
  return std::make_unique<StoreActivationsPass>(std::move(options),
                                                std::move(described));
}

FailureOr<Cluster>
fcdp::getActivationCluster(ModuleOp module,
                           const std::optional<Cluster> &described,
                           StringRef cluster, StringRef profile) {
  llvm::Expected<Cluster> found =
      getClusterOf(getMesh(module), described,
                   cluster.empty() ? StringRef("a100-80gb") : cluster, profile);
  if (!found)
    return module.emitError("cluster: ") << toString(found.takeError());
  return std::move(*found);
}

/// Returns the calls of `function` with results that are to be stored.
static SmallVector<Operation *> findChosenCalls(func::FuncOp function) {
  SmallVector<Operation *> calls;
  for (auto call : function.getOps<aten::CallOp>())
    if (std::optional<ArrayRef<int64_t>> results = getOnHost(call);
        results && !results->empty())
      calls.push_back(call);
  return calls;
}

static bool isStored(Value value) {
  return llvm::any_of(value.getUsers(), llvm::IsaPred<StoreValueOp>);
}

/// Checks that the chosen values can be stored, since the user may have chosen
/// them.
static LogicalResult checkChoices(ArrayRef<Operation *> calls,
                                  const StoredActivations &activations) {
  llvm::DenseSet<Value> saved;
  for (const SavedValue &one : activations.getValues())
    saved.insert(one.value);
  for (Operation *call : calls) {
    ArrayRef<int64_t> numbers = *getOnHost(call);
    for (int64_t number : numbers)
      if (OpResult value = call->getResult(number);
          !isStored(value) && !saved.contains(value))
        return call->emitOpError("result ")
               << number
               << " cannot be in host memory: expected new memory that only "
                  "calls read after the forward pass, and that they do read";
  }
  return success();
}

void StoreActivationsPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requirePhase(module, Phase::sharded)))
    return signalPassFailure();
  std::optional<CostModel> model;
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<Operation *> calls = findChosenCalls(function);
    if (calls.empty())
      continue;
    if (!model) {
      FailureOr<Cluster> found =
          getActivationCluster(module, described, cluster, profile);
      if (failed(found))
        return signalPassFailure();
      model.emplace(*found);
    }
    StoredActivations activations(function, *model);
    if (failed(checkChoices(calls, activations)))
      return signalPassFailure();
    const ActivationProblem &problem = activations.getProblem();
    ActivationSolution solution = placeMoves(problem, activations.findChosen());
    llvm::Error error = problem.check();
    if (!error)
      error = solution.verify(problem);
    if (error) {
      function.emitError("activations: ") << toString(std::move(error));
      return signalPassFailure();
    }
    activations.apply(solution);
  }
}
