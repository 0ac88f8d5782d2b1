// SPDX-License-Identifier: Apache-2.0
//
// The discardable attributes of the dialect: access to them, and their
// verifier.

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace fcdp;

//===----------------------------------------------------------------------===//
// Access
//===----------------------------------------------------------------------===//

/// Returns the attribute of `op` that `HelperTy` names, or null.
template <typename HelperTy>
static auto find(Operation *op) {
  using AttrTy = decltype(std::declval<HelperTy>().getAttr(op));
  return op->getAttrOfType<AttrTy>(HelperTy::getNameStr());
}

template <typename HelperTy>
static void set(Operation *op, Attribute value) {
  op->setAttr(HelperTy::getNameStr(), value);
}

template <typename HelperTy>
static std::optional<StringRef> findText(Operation *op) {
  auto attr = find<HelperTy>(op);
  return attr ? std::optional(attr.getValue()) : std::nullopt;
}

template <typename HelperTy>
static void setText(Operation *op, StringRef text) {
  set<HelperTy>(op, StringAttr::get(op->getContext(), text));
}

template <typename HelperTy>
static std::optional<int64_t> findNumber(Operation *op) {
  auto attr = find<HelperTy>(op);
  return attr ? std::optional(attr.getInt()) : std::nullopt;
}

template <typename HelperTy>
static void setNumber(Operation *op, int64_t number) {
  set<HelperTy>(op, Builder(op->getContext()).getI64IntegerAttr(number));
}

template <typename HelperTy>
static void setUnit(Operation *op, bool isGiven = true) {
  if (isGiven)
    set<HelperTy>(op, UnitAttr::get(op->getContext()));
  else
    op->removeAttr(HelperTy::getNameStr());
}

std::optional<Phase> fcdp::getPhase(ModuleOp module) {
  auto attr = find<FcdpDialect::PhaseAttrHelper>(module);
  return attr ? std::optional(attr.getValue()) : std::nullopt;
}
void fcdp::setPhase(ModuleOp module, Phase phase) {
  set<FcdpDialect::PhaseAttrHelper>(module,
                                    PhaseAttr::get(module.getContext(), phase));
}

std::optional<StringRef> fcdp::getArchive(ModuleOp module) {
  return findText<FcdpDialect::ArchiveAttrHelper>(module);
}
void fcdp::setArchive(ModuleOp module, StringRef path) {
  setText<FcdpDialect::ArchiveAttrHelper>(module, path);
}

std::optional<StringRef> fcdp::getEvaluationArchive(ModuleOp module) {
  return findText<FcdpDialect::EvaluationArchiveAttrHelper>(module);
}
void fcdp::setEvaluationArchive(ModuleOp module, StringRef path) {
  setText<FcdpDialect::EvaluationArchiveAttrHelper>(module, path);
}

SmallVector<StringRef> fcdp::getVariantArchives(ModuleOp module) {
  SmallVector<StringRef> paths;
  if (auto attr = find<FcdpDialect::VariantArchivesAttrHelper>(module))
    for (auto path : attr.getAsRange<StringAttr>())
      paths.push_back(path.getValue());
  return paths;
}
void fcdp::setVariantArchives(ModuleOp module, ArrayRef<StringRef> paths) {
  set<FcdpDialect::VariantArchivesAttrHelper>(
      module, Builder(module.getContext()).getStrArrayAttr(paths));
}

std::vector<std::string> fcdp::getArchives(StringRef step, StringRef evaluation,
                                           ArrayRef<StringRef> variants) {
  std::vector<std::string> paths = {step.str(), evaluation.str()};
  paths.insert(paths.end(), variants.begin(), variants.end());
  return paths;
}

std::vector<std::string> fcdp::getArchives(ModuleOp module) {
  return getArchives(getArchive(module).value_or(""),
                     getEvaluationArchive(module).value_or(""),
                     getVariantArchives(module));
}

StringRef fcdp::getArchiveAttr(size_t number) {
  if (number == 0)
    return FcdpDialect::ArchiveAttrHelper::getNameStr();
  return number == 1 ? FcdpDialect::EvaluationArchiveAttrHelper::getNameStr()
                     : FcdpDialect::VariantArchivesAttrHelper::getNameStr();
}

Target fcdp::getTarget(ModuleOp module) {
  auto text = findText<FcdpDialect::TargetAttrHelper>(module);
  return symbolizeTarget(text.value_or("")).value_or(Target::cpu);
}
void fcdp::setTarget(ModuleOp module, Target target) {
  setText<FcdpDialect::TargetAttrHelper>(module, stringifyTarget(target));
}

std::optional<StringRef> fcdp::getRemat(ModuleOp module) {
  return findText<FcdpDialect::RematAttrHelper>(module);
}
void fcdp::setRemat(ModuleOp module, StringRef remat) {
  setText<FcdpDialect::RematAttrHelper>(module, remat);
}

Wrap fcdp::getWrap(ModuleOp module) {
  auto text = findText<FcdpDialect::WrapAttrHelper>(module);
  return symbolizeWrap(text.value_or("")).value_or(Wrap::unit);
}
void fcdp::setWrap(ModuleOp module, Wrap wrap) {
  setText<FcdpDialect::WrapAttrHelper>(module, stringifyWrap(wrap));
}

std::optional<StringRef> fcdp::getActivations(ModuleOp module) {
  return findText<FcdpDialect::ActivationsAttrHelper>(module);
}
void fcdp::setActivations(ModuleOp module, StringRef mode) {
  setText<FcdpDialect::ActivationsAttrHelper>(module, mode);
}

std::optional<StringRef> fcdp::getLossWeight(ModuleOp module) {
  return findText<FcdpDialect::LossWeightAttrHelper>(module);
}
void fcdp::setLossWeight(ModuleOp module, StringRef input) {
  setText<FcdpDialect::LossWeightAttrHelper>(module, input);
}

std::optional<StringRef> fcdp::getLossChunk(ModuleOp module) {
  return findText<FcdpDialect::LossChunkAttrHelper>(module);
}
void fcdp::setLossChunk(ModuleOp module, StringRef rows) {
  setText<FcdpDialect::LossChunkAttrHelper>(module, rows);
}

std::optional<StringRef> fcdp::getFrozen(ModuleOp module) {
  return findText<FcdpDialect::FrozenAttrHelper>(module);
}
void fcdp::setFrozen(ModuleOp module, StringRef packing) {
  setText<FcdpDialect::FrozenAttrHelper>(module, packing);
}

std::optional<StringRef> fcdp::getFuse(ModuleOp module) {
  return findText<FcdpDialect::FuseAttrHelper>(module);
}
void fcdp::setFuse(ModuleOp module, StringRef mode) {
  setText<FcdpDialect::FuseAttrHelper>(module, mode);
}

std::optional<int64_t> fcdp::findMicroBatches(ModuleOp module) {
  return findNumber<FcdpDialect::MicroBatchesAttrHelper>(module);
}
int64_t fcdp::getMicroBatches(ModuleOp module) {
  return findMicroBatches(module).value_or(1);
}
void fcdp::setMicroBatches(ModuleOp module, int64_t count) {
  setNumber<FcdpDialect::MicroBatchesAttrHelper>(module, count);
}

std::optional<double> fcdp::getClipNorm(ModuleOp module) {
  auto attr = find<FcdpDialect::ClipNormAttrHelper>(module);
  return attr ? std::optional(attr.getValueAsDouble()) : std::nullopt;
}
void fcdp::setClipNorm(ModuleOp module, double norm) {
  set<FcdpDialect::ClipNormAttrHelper>(
      module, Builder(module.getContext()).getF64FloatAttr(norm));
}

OuterAttr fcdp::getOuter(ModuleOp module) {
  return find<FcdpDialect::OuterAttrHelper>(module);
}
void fcdp::setOuter(ModuleOp module, OuterAttr outer) {
  set<FcdpDialect::OuterAttrHelper>(module, outer);
}
int64_t fcdp::countFragments(ModuleOp module) {
  OuterAttr outer = getOuter(module);
  return outer ? outer.getFragments() : 0;
}

bool fcdp::hasOwnScale(Operation *op) {
  return static_cast<bool>(find<FcdpDialect::OwnScaleAttrHelper>(op));
}

std::optional<int64_t> fcdp::getBucketBytes(ModuleOp module) {
  return findNumber<FcdpDialect::BucketBytesAttrHelper>(module);
}
void fcdp::setBucketBytes(ModuleOp module, int64_t bytes) {
  setNumber<FcdpDialect::BucketBytesAttrHelper>(module, bytes);
}

bool fcdp::isShardingOpen(ModuleOp module) {
  return static_cast<bool>(find<FcdpDialect::OpenShardingAttrHelper>(module));
}
void fcdp::setShardingOpen(ModuleOp module, bool isOpen) {
  setUnit<FcdpDialect::OpenShardingAttrHelper>(module, isOpen);
}

bool fcdp::isMergingOpen(ModuleOp module) {
  return static_cast<bool>(find<FcdpDialect::OpenMergingAttrHelper>(module));
}
void fcdp::setMergingOpen(ModuleOp module, bool isOpen) {
  setUnit<FcdpDialect::OpenMergingAttrHelper>(module, isOpen);
}

std::optional<StringRef> fcdp::getStrategy(ModuleOp module) {
  return findText<FcdpDialect::StrategyAttrHelper>(module);
}
void fcdp::setStrategy(ModuleOp module, StringRef strategy) {
  setText<FcdpDialect::StrategyAttrHelper>(module, strategy);
}

std::optional<int64_t> fcdp::getPrefetch(Operation *op) {
  return findNumber<FcdpDialect::PrefetchAttrHelper>(op);
}
void fcdp::setPrefetch(Operation *op, int64_t units) {
  setNumber<FcdpDialect::PrefetchAttrHelper>(op, units);
}

bool fcdp::isPrefetched(ModuleOp module) {
  return static_cast<bool>(find<FcdpDialect::PrefetchedAttrHelper>(module));
}
void fcdp::setPrefetched(ModuleOp module) {
  setUnit<FcdpDialect::PrefetchedAttrHelper>(module);
}

std::optional<int64_t> fcdp::getReductions(Operation *op) {
  return findNumber<FcdpDialect::ReductionsAttrHelper>(op);
}
void fcdp::setReductions(Operation *op, int64_t units) {
  setNumber<FcdpDialect::ReductionsAttrHelper>(op, units);
}

std::optional<Role> fcdp::findRole(Operation *op) {
  auto attr = find<FcdpDialect::RoleAttrHelper>(op);
  return attr ? std::optional(attr.getValue()) : std::nullopt;
}
void fcdp::setRole(Operation *op, Role role) {
  set<FcdpDialect::RoleAttrHelper>(op, RoleAttr::get(op->getContext(), role));
}

std::optional<int64_t> fcdp::findVariant(Operation *op) {
  return findNumber<FcdpDialect::VariantAttrHelper>(op);
}
void fcdp::setVariant(Operation *op, int64_t variant) {
  setNumber<FcdpDialect::VariantAttrHelper>(op, variant);
}

std::optional<bool> fcdp::getRecompute(Operation *op) {
  auto attr = find<FcdpDialect::RecomputeAttrHelper>(op);
  return attr ? std::optional(attr.getValue()) : std::nullopt;
}
void fcdp::setRecompute(Operation *op, bool recompute) {
  set<FcdpDialect::RecomputeAttrHelper>(
      op, BoolAttr::get(op->getContext(), recompute));
}
void fcdp::removeRecompute(Operation *op) {
  op->removeAttr(FcdpDialect::RecomputeAttrHelper::getNameStr());
}

std::optional<ArrayRef<int64_t>> fcdp::getOnHost(Operation *op) {
  auto attr = find<FcdpDialect::OnHostAttrHelper>(op);
  return attr ? std::optional(attr.asArrayRef()) : std::nullopt;
}
void fcdp::setOnHost(Operation *op, ArrayRef<int64_t> results) {
  set<FcdpDialect::OnHostAttrHelper>(
      op, DenseI64ArrayAttr::get(op->getContext(), results));
}

void fcdp::removeOnHost(Operation *op) {
  op->removeAttr(FcdpDialect::OnHostAttrHelper::getNameStr());
}

std::optional<int64_t> fcdp::getCheckpointRegion(Operation *op) {
  return findNumber<FcdpDialect::CheckpointRegionAttrHelper>(op);
}
void fcdp::setCheckpointRegion(Operation *op, int64_t region) {
  setNumber<FcdpDialect::CheckpointRegionAttrHelper>(op, region);
}
void fcdp::removeCheckpointRegion(Operation *op) {
  op->removeAttr(FcdpDialect::CheckpointRegionAttrHelper::getNameStr());
}

bool fcdp::isRepeated(Operation *op) {
  return static_cast<bool>(find<FcdpDialect::RepeatedAttrHelper>(op));
}
void fcdp::setRepeated(Operation *op) {
  setUnit<FcdpDialect::RepeatedAttrHelper>(op);
}

std::optional<ArrayRef<int64_t>> fcdp::getDimOrder(Operation *op) {
  auto attr = find<FcdpDialect::DimOrderAttrHelper>(op);
  return attr ? std::optional(attr.asArrayRef()) : std::nullopt;
}
void fcdp::setDimOrder(Operation *op, ArrayRef<int64_t> order) {
  set<FcdpDialect::DimOrderAttrHelper>(
      op, DenseI64ArrayAttr::get(op->getContext(), order));
}

ArrayAttr fcdp::getParameterOperands(Operation *op) {
  return find<FcdpDialect::ParametersAttrHelper>(op);
}
void fcdp::setParameterOperands(Operation *op, ArrayAttr parameters) {
  set<FcdpDialect::ParametersAttrHelper>(op, parameters);
}

ArrayAttr fcdp::getGradientResults(Operation *op) {
  return find<FcdpDialect::GradientsAttrHelper>(op);
}
void fcdp::setGradientResults(Operation *op, ArrayAttr parameters) {
  set<FcdpDialect::GradientsAttrHelper>(op, parameters);
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// Verifies C1 of fcdp.state: a bucket has at most one state of each role. It
/// is checked once per module, because a search from each state would be
/// quadratic.
static LogicalResult verifyStates(ModuleOp module) {
  llvm::DenseMap<std::pair<Attribute, Attribute>, StateOp> seen;
  for (auto state : module.getOps<StateOp>()) {
    FlatSymbolRefAttr bucket = state.getBucketAttr();
    StateRoleAttr role = state.getRoleAttr();
    // The module's attributes are verified before its operations.
    if (!bucket || !role)
      continue;
    auto [previous, isNew] = seen.try_emplace({bucket, role}, state);
    if (isNew)
      continue;
    InFlightDiagnostic diag = state.emitOpError("expected one state '")
                              << stringifyStateRole(role.getValue()) << "' of "
                              << bucket;
    diag.attachNote(previous->second.getLoc()) << "the other is here";
    return diag;
  }
  return success();
}

static bool isDimOrder(Operation *op, Attribute attr) {
  auto order = dyn_cast<DenseI64ArrayAttr>(attr);
  if (!order || op->getNumResults() == 0)
    return false;
  SmallVector<int64_t> sorted(order.asArrayRef());
  llvm::sort(sorted);
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return type && llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank()));
}

static bool areResults(Operation *op, Attribute attr) {
  auto numbers = dyn_cast<DenseI64ArrayAttr>(attr);
  return numbers &&
         llvm::is_sorted(numbers.asArrayRef(), std::less_equal<>()) &&
         llvm::all_of(numbers.asArrayRef(), [&](int64_t number) {
           return number >= 0 && number < int64_t(op->getNumResults());
         });
}

static bool isTextOnModule(Operation *op, Attribute value) {
  return isa<ModuleOp>(op) && isa<StringAttr>(value);
}

static bool isUnitOnModule(Operation *op, Attribute value) {
  return isa<ModuleOp>(op) && isa<UnitAttr>(value);
}

static bool isI64From(int64_t least, Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= least;
}

static bool isClipNorm(Operation *op, Attribute value) {
  auto norm = dyn_cast<FloatAttr>(value);
  return isa<ModuleOp>(op) && norm && norm.getType().isF64() &&
         norm.getValue().isFinite() && norm.getValueAsDouble() > 0;
}

/// Returns whether there is an entry for each operand of a call.
static bool isPerOperand(Operation *op, Attribute value) {
  auto entries = dyn_cast<ArrayAttr>(value);
  return isa<aten::CallOp>(op) && entries &&
         entries.size() == op->getNumOperands() &&
         llvm::all_of(entries, llvm::IsaPred<UnitAttr, FlatSymbolRefAttr>);
}

/// Returns whether there is an array of parameters for each result of a call.
static bool isPerResult(Operation *op, Attribute value) {
  auto entries = dyn_cast<ArrayAttr>(value);
  return isa<aten::CallOp>(op) && entries &&
         entries.size() == op->getNumResults() &&
         llvm::all_of(entries, [](Attribute entry) {
           auto names = dyn_cast<ArrayAttr>(entry);
           return names &&
                  llvm::all_of(names, llvm::IsaPred<FlatSymbolRefAttr>);
         });
}

static bool isPositiveOnModule(Operation *op, Attribute value) {
  return isa<ModuleOp>(op) && isI64From(1, value);
}

namespace {
/// A rule for a discardable attribute: the operations that may have it, and its
/// values.
struct AttrRule {
  StringRef name;
  bool (*holds)(Operation *, Attribute);
  StringRef expected;
};
} // namespace

static constexpr StringLiteral kText = "a string on a module";
static constexpr StringLiteral kUnit = "a unit on a module";
static constexpr StringLiteral kPositive = "a positive i64 on a module";

static const AttrRule kRules[] = {
    {FcdpDialect::PhaseAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<ModuleOp>(op) && isa<PhaseAttr>(value);
     },
     "a phase on a module"},
    {FcdpDialect::RoleAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<func::FuncOp>(op) && isa<RoleAttr>(value);
     },
     "a role on a function"},
    {FcdpDialect::VariantAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<func::FuncOp>(op) && isI64From(0, value);
     },
     "an i64 from 0 on, on a function"},
    {FcdpDialect::VariantArchivesAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       auto paths = dyn_cast<ArrayAttr>(value);
       return isa<ModuleOp>(op) && paths &&
              llvm::all_of(paths, llvm::IsaPred<StringAttr>);
     },
     "an array of strings on a module"},
    {FcdpDialect::RecomputeAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<aten::CallOp>(op) && isa<BoolAttr>(value);
     },
     "a bool on a call"},
    {FcdpDialect::OnHostAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<aten::CallOp>(op) && areResults(op, value);
     },
     "numbers of a call's results, in order"},
    {FcdpDialect::CheckpointRegionAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<aten::CallOp>(op) && isI64From(0, value);
     },
     "an i64 from 0 on, on a call"},
    {FcdpDialect::RepeatedAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<aten::CallOp>(op) && isa<UnitAttr>(value);
     },
     "a unit on a call"},
    {FcdpDialect::DimOrderAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<aten::CallOp>(op) && isDimOrder(op, value);
     },
     "a permutation of the dimensions of a call's first result"},
    {FcdpDialect::TargetAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       auto target = dyn_cast<StringAttr>(value);
       return isa<ModuleOp>(op) && target && symbolizeTarget(target.getValue());
     },
     "'cpu' or 'cuda' on a module"},
    {FcdpDialect::ReductionsAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<ModuleOp, AccumulateOp, CacheStoreOp>(op) &&
              isI64From(1, value);
     },
     "a positive i64 on a module or a sum"},
    {FcdpDialect::PrefetchAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<ModuleOp, AllGatherOp, CacheLoadOp>(op) &&
              isI64From(0, value);
     },
     "an i64 from 0 on, on a module, a gather or a load"},
    {FcdpDialect::ParametersAttrHelper::getNameStr(), isPerOperand,
     "a parameter or a unit for each operand of a call"},
    {FcdpDialect::GradientsAttrHelper::getNameStr(), isPerResult,
     "an array of parameters for each result of a call"},
    {FcdpDialect::ClipNormAttrHelper::getNameStr(), isClipNorm,
     "a finite, positive f64 on a module"},
    {FcdpDialect::OuterAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<ModuleOp>(op) && isa<OuterAttr>(value);
     },
     "an outer optimizer on a module"},
    {FcdpDialect::OwnScaleAttrHelper::getNameStr(),
     [](Operation *op, Attribute value) {
       return isa<UpdateOpInterface, ClipGradientsOp>(op) &&
              isa<UnitAttr>(value);
     },
     "a unit on an update or on the clipping of gradients"},
    {FcdpDialect::ArchiveAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::EvaluationArchiveAttrHelper::getNameStr(), isTextOnModule,
     kText},
    {FcdpDialect::StrategyAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::RematAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::WrapAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::LossWeightAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::ActivationsAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::LossChunkAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::FrozenAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::FuseAttrHelper::getNameStr(), isTextOnModule, kText},
    {FcdpDialect::MicroBatchesAttrHelper::getNameStr(), isPositiveOnModule,
     kPositive},
    {FcdpDialect::BucketBytesAttrHelper::getNameStr(), isPositiveOnModule,
     kPositive},
    {FcdpDialect::PrefetchedAttrHelper::getNameStr(), isUnitOnModule, kUnit},
    {FcdpDialect::OpenShardingAttrHelper::getNameStr(), isUnitOnModule, kUnit},
    {FcdpDialect::OpenMergingAttrHelper::getNameStr(), isUnitOnModule, kUnit},
};

LogicalResult FcdpDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  StringRef name = attr.getName().strref();
  const AttrRule *rule = llvm::find_if(
      kRules, [&](const AttrRule &one) { return one.name == name; });
  if (rule == std::end(kRules))
    return op->emitError("unknown attribute '") << name << "'";
  if (!rule->holds(op, attr.getValue()))
    return op->emitError("attribute '")
           << name << "' must be " << rule->expected << ", got '"
           << attr.getValue() << "'";
  if (isa<PhaseAttr>(attr.getValue()))
    return verifyStates(cast<ModuleOp>(op));
  return success();
}

LogicalResult FcdpDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attr) {
  if (attr.getName() == kEventAttr) {
    auto function = dyn_cast<func::FuncOp>(op);
    if (function && isa<TokenType>(function.getArgumentTypes()[index]) &&
        isI64From(0, attr.getValue()))
      return success();
    return op->emitError("attribute '")
           << kEventAttr << "' must be an i64 from 0 on, on a token, got '"
           << attr.getValue() << "' on argument " << index;
  }
  return op->emitError("unknown attribute '")
         << attr.getName().strref() << "' on argument " << index;
}

LogicalResult FcdpDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned index,
                                                       NamedAttribute attr) {
  return op->emitError("unknown attribute '")
         << attr.getName().strref() << "' on result " << index;
}
