// SPDX-License-Identifier: Apache-2.0
//
// Plans steps without one memory effect of one operation. The schedule takes
// the order of accesses from declared effects, and the prover does not. So a
// plan that lacks a wait must be refused.

#include "CoveringSteps.h"
#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Transforms/Pipeline.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"

#include <map>
#include <set>

using namespace mlir;
using namespace fcdp;

namespace {

using EffectsConcept = MemoryEffectOpInterface::Concept;
using Effects = SmallVector<MemoryEffects::EffectInstance>;

/// Returns the effect as "shard_update reads sums"; empty if it is neither a
/// read nor a write.
std::string describe(Operation *op,
                     const MemoryEffects::EffectInstance &effect) {
  bool isWrite = isa<MemoryEffects::Write>(effect.getEffect());
  if (!isWrite && !isa<MemoryEffects::Read>(effect.getEffect()))
    return {};
  StringRef resource = effect.getResource() == Accumulator::get() ? "sums"
                       : effect.getResource() == HostCache::get()
                           ? "host memory"
                       : effect.getResource() == Order::get() ? "the order"
                                                              : "states";
  return (op->getName().stripDialect() + (isWrite ? " writes " : " reads ") +
          resource)
      .str();
}

/// The effects that operations of a context declare, but for one.
class DeclaredEffects {
public:
  /// Takes over from all operations of `context` that declare effects.
  explicit DeclaredEffects(MLIRContext &context) {
    for (RegisteredOperationName name : getFcdpOperations(context))
      if (auto *model = name.getInterface<MemoryEffectOpInterface>()) {
        declared[model] = model->getEffects;
        model->getEffects = getEffects;
      }
    now = this;
  }
  ~DeclaredEffects() { now = nullptr; }

  std::string dropped;

private:
  static void getEffects(const EffectsConcept *model, Operation *op,
                         SmallVectorImpl<MemoryEffects::EffectInstance> &out) {
    Effects effects;
    now->declared.at(model)(model, op, effects);
    for (const MemoryEffects::EffectInstance &effect : effects)
      if (now->dropped.empty() || describe(op, effect) != now->dropped)
        out.push_back(effect);
  }

  static DeclaredEffects *now;
  std::map<const EffectsConcept *, decltype(EffectsConcept::getEffects)>
      declared;
};
DeclaredEffects *DeclaredEffects::now = nullptr;

/// Returns whether `error` names what is not ordered: the parameter and the
/// streams, or the state that nothing writes.
bool isByName(StringRef error) {
  return (error.contains(" for 'a' of @bucket.a") &&
          error.contains(
              "not ordered with another access to them; expected '")) ||
         error.contains("expected an operation that writes to '@bucket.");
}

/// A planned step, or the error with which it was refused.
struct Result {
  std::string plan, error;
  size_t waits = 0;
};

class DroppedEffectsTest : public testing::Test {
protected:
  DroppedEffectsTest() {
    context.loadDialect<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    effects.emplace(context);
  }

  OwningOpRef<ModuleOp> parse(const PipelineOptions &options) {
    return parseSourceString<ModuleOp>(getCoveringStep(options), &context);
  }

  Result plan(const PipelineOptions &options) {
    Result result;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      result.error += diagnostic.str() + "\n";
    });
    OwningOpRef<ModuleOp> module = parse(options);
    PassManager passes(&context);
    buildFcdpPipeline(passes, options);
    bool isProved = succeeded(passes.run(*module));
    EXPECT_EQ(isProved, result.error.empty()) << result.error;
    llvm::raw_string_ostream(result.plan) << *module;
    module->walk([&](Operation *op) {
      result.waits += isa<WaitOp>(op);
      Effects effects;
      if (auto declaring = dyn_cast<MemoryEffectOpInterface>(op))
        declaring.getEffects(effects);
      for (const MemoryEffects::EffectInstance &effect : effects)
        if (std::string text = describe(op, effect); !text.empty())
          seen.insert(std::move(text));
    });
    return result;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::optional<DeclaredEffects> effects;
  /// The effects of the operations of planned steps.
  std::set<std::string> seen;
};

/// Returns the steps that are planned. Every other step does not clip
/// gradients, because clipping waits for all accumulators.
std::vector<PipelineOptions> makeRuns() {
  std::vector<PipelineOptions> runs = makeCoveringRuns();
  for (size_t i = 1; i < runs.size(); i += 2)
    runs[i].clipNorm = PipelineOptions().clipNorm;
  return runs;
}

/// How many plans changed without an effect. The other plans whose operations
/// have the effect stayed the same.
struct Changes {
  /// Plans that were proved, with fewer waits.
  size_t fewerWaits = 0;
  size_t refused = 0;

  bool operator==(const Changes &other) const {
    return fewerWaits == other.fewerWaits && refused == other.refused;
  }
  friend std::ostream &operator<<(std::ostream &stream,
                                  const Changes &changes) {
    return stream << changes.fewerWaits << " plans with fewer waits, "
                  << changes.refused << " refused";
  }
};

/// Most drops change nothing: the operation runs on the same stream as the
/// other one, or after a wait for compute.
TEST_F(DroppedEffectsTest, PlansAreTheSameOrProvedOrRefusedByName) {
  std::vector<Result> whole;
  for (const PipelineOptions &options : makeRuns()) {
    whole.push_back(plan(options));
    ASSERT_EQ(whole.back().error, "");
  }
  std::map<std::string, Changes> changed;
  for (const std::string &effect : std::set<std::string>(seen)) {
    SCOPED_TRACE("without the effect '" + effect + "'");
    effects->dropped = effect;
    for (const auto &[options, before] : llvm::zip_equal(makeRuns(), whole)) {
      SCOPED_TRACE(options.strategy + ", " + options.accumulate + ", " +
                   options.optimizer);
      Result after = plan(options);
      if (!after.error.empty()) {
        ++changed[effect].refused;
        EXPECT_TRUE(isByName(after.error)) << after.error;
      } else if (after.plan != before.plan) {
        ++changed[effect].fewerWaits;
        EXPECT_LT(after.waits, before.waits);
      }
    }
  }
  std::map<std::string, Changes> expected = {
      // Nothing is left that fills what is in flight at a function's end.
      {"accumulate writes sums", {0, 12}},
      {"all_gather writes states", {0, 10}},
      // The users of the prefetched copy do not wait for its gather.
      {"read_state reads states", {0, 10}},
      // The update does not wait for late accumulates, unless clipping does.
      {"shard_update reads sums", {0, 4}},
      // The load waits for compute, and compute has waited for the store.
      {"cache_load reads host memory", {1, 0}},
      {"cache_store writes host memory", {1, 0}},
  };
  EXPECT_EQ(changed, expected);
}

} // namespace
