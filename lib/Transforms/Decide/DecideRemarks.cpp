// SPDX-License-Identifier: Apache-2.0

#include "DecideRemarks.h"

#include "dialects/Fcdp/Tiers.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "fcdp/Planning/Residency/CopyPolicy.h"
#include "fcdp/Support/Units.h"

#include "mlir/IR/Remarks.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fcdp;

static constexpr llvm::StringLiteral kCategory = "fcdp-decide";

/// Returns how often a micro-batch gathers each bucket if no copy is kept.
static llvm::DenseMap<StringAttr, int64_t> countUses(ModuleOp module) {
  llvm::DenseMap<StringAttr, int64_t> uses;
  for (func::FuncOp function : getFirstMicrobatches(module))
    for (auto gather : function.getOps<CollectiveOpInterface>())
      if (!gather.isOfGradient())
        ++uses[gather.getSourceAttr().getAttr()];
  return uses;
}

namespace {
/// Describes the residency of one bucket.
class Describer {
public:
  Describer(BucketOp bucket, int64_t uses, const CostModel *model)
      : bucket(bucket), module(bucket->getParentOfType<ModuleOp>()),
        mesh(getMesh(module)), uses(uses), model(model),
        residency(*bucket.getResidency()),
        carry(bucket.getCarry().value_or(residency)),
        policy({residency, carry, bucket.getTrainable(),
                getMicroBatches(module) > 1, uses > 1,
                runsBetweenSteps(module)}) {}

  std::string describe();

private:
  std::string describeSaving();
  std::string describeCost();

  BucketOp bucket;
  ModuleOp module;
  MeshOp mesh;
  int64_t uses;
  const CostModel *model;
  Residency residency, carry;
  CopyPolicy policy;
};
} // namespace

/// Compares with a copy that is dropped after each use. Gathers within a node
/// are not counted.
std::string Describer::describeSaving() {
  int64_t microBatches = getMicroBatches(module);
  int64_t saved =
      uses * microBatches - policy.countNetworkGathers(microBatches, uses);
  if (mesh.getNode() == 1 || bucket.getSharding() != Sharding::world ||
      saved == 0)
    return "saves nothing between nodes";
  if (!model)
    return llvm::formatv("saves {0} gather{1} between nodes a step", saved,
                         saved == 1 ? "" : "s");
  int64_t whole = static_cast<int64_t>(bucket.getElements()) *
                  elementBytes(bucket.getWire());
  double part = static_cast<double>(whole) / mesh.getWorldSize();
  Cost gather = gathersFlat(bucket, mesh)
                    ? model->costOfFlatGather(part)
                    : model->costOfGather(Axis::node, mesh.getNode(), part);
  return "saves " + formatSeconds(double(saved) * gather.getTotal()) +
         " of inter-node time a step";
}

std::string Describer::describeCost() {
  int64_t whole = static_cast<int64_t>(bucket.getElements()) *
                  elementBytes(bucket.getWire());
  // The device keeps the greater one of two copies.
  const Tier *kept = &getTier(policy.state);
  if (const Tier &within = getTier(policy.within);
      within.arena == Arena::device &&
      (kept->arena != Arena::device || within.part > kept->part))
    kept = &within;
  if (!kept->arena)
    return "costs nothing";
  int64_t bytes = kept->owner == CopyOwner::node
                      ? whole
                      : kept->getKeptBytes(whole, whole / mesh.getLocal());
  std::string text = "costs " + formatBytes(bytes) + " of each ";
  if (kept->arena == Arena::device)
    return text + "device";
  return text + (kept->owner == CopyOwner::node ? "node's " : "rank's ") +
         stringifyArena(*kept->arena).str() + " memory";
}

std::string Describer::describe() {
  std::string text =
      ("bucket " + bucket.getSymName() + ": " + stringifyResidency(residency))
          .str();
  if (carry != residency)
    text +=
        (", " + stringifyResidency(carry) +
         (bucket.getTrainable() ? " between micro-batches" : " between steps"))
            .str();
  if (bucket.getCollectives() == Collectives::flat)
    text += ", flat collectives";
  if (bucket.getAccumulation() &&
      *bucket.getAccumulation() != Accumulation::sharded)
    text += (", gradients summed " +
             stringifyAccumulation(*bucket.getAccumulation()))
                .str();
  return text + ", " + describeSaving() + ", " + describeCost();
}

void fcdp::remarkOnResidencies(ModuleOp module, const CostModel *model) {
  if (!module.getContext()->getRemarkEngine())
    return;
  llvm::DenseMap<StringAttr, int64_t> uses = countUses(module);
  for (auto bucket : module.getOps<BucketOp>())
    if (int64_t count = uses.lookup(bucket.getSymNameAttr()))
      remark::passed(bucket.getLoc(),
                     remark::RemarkOpts::name("residency").category(kCategory))
          << Describer(bucket, count, model).describe();
}
