// SPDX-License-Identifier: Apache-2.0
//
// Says what was forgotten when the dialect has grown. Steps are planned so that
// each operation, state role and stream occurs, and each must then have its
// interfaces, its cost, its proof and its place in the runtime's schema.

#include "CoveringSteps.h"
#include "dialects/Aten/Aten.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Conversion/Plan.h"
#include "fcdp/Simulation/StepProgram.h"
#include "fcdp/Transforms/Pipeline.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
class DialectCoverageTest : public testing::Test {
protected:
  DialectCoverageTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    cluster.nodes = 2;
    cluster.ranksPerNode = 2;
    cluster.device.memory = 1 << 30;
    cluster.device.memoryBandwidth = 1e12;
    cluster.device.flops = {1e12, 1e12, 1e12, 1e12};
    cluster.device.computeEfficiency = cluster.device.memoryEfficiency = 1;
    cluster.host.memory = 1 << 30;
    cluster.links[LinkId::Inter] = {1e9, 1e-6, Sharing::rank, 0};
    cluster.links[LinkId::Intra] = cluster.links[LinkId::H2D] =
        cluster.links[LinkId::D2H] = cluster.links[LinkId::Inter];
  }

  /// Calls `visit` with each planned step.
  void forEachStep(function_ref<void(ModuleOp)> visit) {
    for (const PipelineOptions &options : makeCoveringRuns()) {
      SCOPED_TRACE(options.strategy + ", " + options.accumulate);
      auto module =
          parseSourceString<ModuleOp>(getCoveringStep(options), &context);
      ASSERT_TRUE(module);
      PassManager passes(&context);
      buildFcdpPipeline(passes, options);
      // Proves each step, too.
      ASSERT_TRUE(succeeded(passes.run(*module)));
      visit(*module);
    }
  }

  MLIRContext context;
  Cluster cluster;
};
} // namespace

static bool hasAttr(RegisteredOperationName name, StringRef attr) {
  return llvm::any_of(name.getAttributeNames(),
                      [&](StringAttr other) { return other == attr; });
}

/// Each property that passes ask an operation about must be an interface of it.
TEST_F(DialectCoverageTest, OperationsHaveTheirInterfaces) {
  for (RegisteredOperationName name : getFcdpOperations(context)) {
    SCOPED_TRACE(name.getStringRef().str());
    EXPECT_TRUE(name.hasTrait<InImported>() || name.hasTrait<InSharded>() ||
                name.hasTrait<InScheduled>() || name.hasTrait<InPlanned>())
        << "no phase has this operation: add a trait in FcdpOps.td";
    if (name.hasInterface<SymbolOpInterface>()) {
      EXPECT_TRUE(name.hasTrait<RunsNothing>());
      continue;
    }
    if (name.hasTrait<RunsNothing>())
      EXPECT_TRUE(name.hasTrait<TakesNoTime>());
    if (hasAttr(name, "axes"))
      EXPECT_TRUE(name.hasInterface<CollectiveOpInterface>());
    if (hasAttr(name, "stream"))
      EXPECT_TRUE(name.hasInterface<StreamedOpInterface>());
    if (hasAttr(name, "buffer") || hasAttr(name, "scratch"))
      EXPECT_TRUE(name.hasInterface<BufferedOpInterface>());
    if (!name.hasInterface<CollectiveOpInterface>())
      continue;
    EXPECT_TRUE(name.hasInterface<StreamedOpInterface>());
    EXPECT_TRUE(name.hasInterface<BufferedOpInterface>());
    EXPECT_TRUE(name.hasInterface<StorageOpInterface>());
  }
}

/// Each operation of the planned phase occurs in a step here, so that the other
/// tests see it.
TEST_F(DialectCoverageTest, OperationsOccurInPlannedSteps) {
  llvm::StringSet<> seen;
  forEachStep([&](ModuleOp module) {
    module.walk(
        [&](Operation *op) { seen.insert(op->getName().getStringRef()); });
  });
  for (RegisteredOperationName name : getFcdpOperations(context))
    if (name.hasTrait<InPlanned>())
      EXPECT_TRUE(seen.contains(name.getStringRef()))
          << "no planned step has '" << name.getStringRef().str()
          << "': the pipeline does not make it, or makeCoveringRuns() has to "
             "be longer";
}

static SmallVector<MemoryEffects::EffectInstance> getEffects(Operation *op) {
  SmallVector<MemoryEffects::EffectInstance> effects;
  if (auto accessor = dyn_cast<MemoryEffectOpInterface>(op))
    accessor.getEffects(effects);
  return effects;
}

/// Returns whether `op` has the effect on `state`, if there is one.
template <typename Effect>
static bool hasEffectOn(Operation *op, FlatSymbolRefAttr state) {
  return !state ||
         llvm::any_of(getEffects(op),
                      [&](const MemoryEffects::EffectInstance &effect) {
                        return isa<Effect>(effect.getEffect()) &&
                               effect.getSymbolRef() == state;
                      });
}

static bool namesSymbol(Operation *op) {
  return llvm::any_of(op->getAttrs(), [](NamedAttribute attr) {
    return isa<FlatSymbolRefAttr>(attr.getValue());
  });
}

/// Memory effects name the states that an operation reads and writes, or a
/// value that is in their memory. The order of operations and the bound on a
/// step's time depend on them.
TEST_F(DialectCoverageTest, EffectsNameStates) {
  forEachStep([&](ModuleOp module) {
    module.walk([&](Operation *op) {
      SCOPED_TRACE(op->getName().getStringRef().str());
      for (const MemoryEffects::EffectInstance &effect : getEffects(op))
        if (effect.getResource() == State::get() ||
            effect.getResource() == Accumulator::get() ||
            effect.getResource() == HostCache::get())
          EXPECT_TRUE(effect.getSymbolRef() || effect.getValue() ||
                      !namesSymbol(op))
              << "an effect has no symbol, but the operation names one";
      EXPECT_TRUE(hasEffectOn<MemoryEffects::Write>(op, getInto(op)))
          << "an effect must say that it writes the state in `into`";
    });
  });
}

/// Prefetches move all operations that bring a copy to its use.
TEST_F(DialectCoverageTest, CopiesAreFetched) {
  auto expectFetch = [](Value value) {
    Operation *op = value.getDefiningOp();
    EXPECT_TRUE(isa<FetchOpInterface>(op))
        << "'" << op->getName().getStringRef().str()
        << "' needs FetchOpInterface: a copy depends on it";
  };
  forEachStep([&](ModuleOp module) {
    module.walk([&](ViewMemberOp view) { expectFetch(view.getWhole()); });
    module.walk([&](FetchOpInterface fetch) {
      if (fetch.bringsCopy())
        llvm::for_each(fetch->getOperands(), expectFetch);
    });
  });
}

/// An operation has a cost if and only if it takes time, and a collective is
/// not shown as computation.
TEST_F(DialectCoverageTest, OperationsHaveCosts) {
  CostModel model(cluster);
  forEachStep([&](ModuleOp module) {
    module.walk([&](Operation *op) {
      if (op->getDialect() != context.getLoadedDialect("fcdp") ||
          isa<SymbolOpInterface>(op))
        return;
      std::string name = op->getName().getStringRef().str();
      Cost cost = model.costOf(op);
      EXPECT_EQ(cost.getTotal() == 0, op->hasTrait<TakesNoTime>())
          << "'" << name
          << "' needs a cost in CostModel.cpp, or the trait TakesNoTime";
      if (isa<CollectiveOpInterface>(op))
        EXPECT_NE(getActivity(op), Activity::compute)
            << "'" << name << "' needs an activity in StepProgram.cpp";
    });
  });
}

/// Each operation that the runtime calls has a body in the plan's schema, and
/// each state role, stream and function role an enumerator.
TEST_F(DialectCoverageTest, PlansHaveEverything) {
  llvm::DenseSet<int> stateRoles;
  forEachStep([&](ModuleOp module) {
    auto noConstants = [](StringRef,
                          size_t) -> llvm::Expected<std::vector<char>> {
      return llvm::createStringError("there is none");
    };
    DeviceMemoryAnalysis memory(module);
    FailureOr<CompiledPlan> compiled = buildPlan(module, memory, noConstants);
    ASSERT_TRUE(succeeded(compiled))
        << "an operation needs a lowering in PlanOps.cpp, or the trait "
           "RunsNothing";
    for (auto state : module.getOps<StateOp>())
      stateRoles.insert(static_cast<int>(state.getRole()));
  });
  for (size_t i = 0; i < kNumStateRoles; ++i) {
    auto role = static_cast<StateRole>(i);
    EXPECT_TRUE(stateRoles.contains(i))
        << "no planned step has a state '" << stringifyStateRole(role).str()
        << "': makeCoveringRuns() has to be longer";
  }
}

namespace {
/// Returns whether the schema's enumerators have `name`.
bool isIn(const char *const *names, StringRef name) {
  for (; *names; ++names)
    if (name == *names)
      return true;
  return false;
}
} // namespace

/// The schema's enumerators are spelled as those of the dialect.
TEST_F(DialectCoverageTest, SchemaHasTheEnumerators) {
  for (size_t i = 0; i < kNumStateRoles; ++i) {
    auto role = static_cast<StateRole>(i);
    StringRef name = stringifyStateRole(role);
    if (getRecord(role).isInPlan)
      EXPECT_TRUE(isIn(plan::EnumNamesStateRole(), name))
          << "StateRole of Plan.fbs lacks '" << name.str() << "'";
  }
  for (size_t i = 0; i < kNumStreams; ++i) {
    StringRef name = stringifyStream(static_cast<Stream>(i));
    EXPECT_TRUE(isIn(plan::EnumNamesStream(), name))
        << "Stream of Plan.fbs lacks '" << name.str() << "'";
  }
  for (size_t i = 0; i < kNumRoles; ++i) {
    StringRef name = stringifyRole(static_cast<Role>(i));
    EXPECT_TRUE(isIn(plan::EnumNamesRole(), name))
        << "Role of Plan.fbs lacks '" << name.str() << "'";
  }
}
