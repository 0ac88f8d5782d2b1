// SPDX-License-Identifier: Apache-2.0

#include "Retarget/CallBuilder.h"
#include "Shard/FrozenMatrices.h"
#include "Verify/VerifyPhase.h"
#include "dialects/Aten/UnpackedMatrix.h"
#include "fcdp/Analysis/Casts.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/FrozenSpec.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"

namespace fcdp {
#define GEN_PASS_DEF_PACKFROZENPASS
#include "fcdp/Transforms/Passes.h.inc"
} // namespace fcdp

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

namespace {
class PackFrozenPass : public fcdp::impl::PackFrozenPassBase<PackFrozenPass> {
public:
  using PackFrozenPassBase::PackFrozenPassBase;
  void runOnOperation() override;

private:
  LogicalResult pack(const FrozenSpec &spec);
};
} // namespace

/// Creates the matrix in the type `element` before `user` from the parameter's
/// bytes.
static Value unpack(Operation *user, ParameterOp parameter, PackedAttr packed,
                    Type element) {
  OpBuilder builder(user);
  Value bytes = ReadParameterOp::create(
      builder, user->getLoc(), parameter.getType(),
      FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
  RankedTensorType whole = packed.getWhole();
  StringRef callee = packed.getPacking() == Packing::nf4 ? aten::kUnpackNf4
                                                         : aten::kUnpackInt8;
  CallOp call = CallBuilder(builder, user->getLoc(), callee)
                    .tensor("packed", bytes)
                    .integers("size", whole.getShape())
                    .literal("dtype", TypeAttr::get(element))
                    .create(whole.clone(element));
  // A repeated product begins a live range, and this is its first operation.
  if (isRepeated(user))
    setRepeated(call);
  return call.getResult(0);
}

/// Returns the position of the first cast if it narrows f32, whose product with
/// the scale is rounded once in either case. Returns none otherwise.
static std::optional<size_t> findNarrowingCast(const MatrixUse &use,
                                               Type element) {
  for (auto [position, view] : llvm::enumerate(use.views))
    if (FloatType type = getCastType(view))
      return element.isF32() && (type.isBF16() || type.isF16())
                 ? std::optional(position)
                 : std::nullopt;
  return std::nullopt;
}

/// Unpacks the matrix right before a product, so that it lives no longer, and
/// repeats its views and casts.
static void unpackFor(const MatrixUse &use, ParameterOp parameter,
                      PackedAttr packed) {
  Operation *user = use.operand->getOwner();
  Type element = packed.getWhole().getElementType();
  std::optional<size_t> dropped = findNarrowingCast(use, element);
  if (dropped)
    element = getCastType(use.views[*dropped]);
  Value value = unpack(user, parameter, packed, element);
  OpBuilder builder(user);
  for (auto [position, view] : llvm::enumerate(use.views)) {
    if (dropped == position)
      continue;
    IRMapping mapping;
    mapping.map(view->getOperand(0), value);
    Operation *clone = builder.clone(*view, mapping);
    value = clone->getResult(0);
    if (dropped && position < *dropped)
      value.setType(cast<RankedTensorType>(value.getType()).clone(element));
  }
  use.operand->set(value);
}

static void rewrite(FrozenMatrix &matrix, Packing packing) {
  ParameterOp parameter = matrix.parameter;
  MLIRContext *context = parameter.getContext();
  auto packed = PackedAttr::get(context, packing, parameter.getTensorType(),
                                matrix.isTransposed);
  parameter.setPackedAttr(packed);
  parameter.setType(RankedTensorType::get(
      {packed.countBytes()},
      IntegerType::get(context, 8, IntegerType::Unsigned)));
  llvm::SetVector<Operation *> views;
  for (const MatrixUse &use : matrix.uses) {
    unpackFor(use, parameter, packed);
    views.insert(use.views.begin(), use.views.end());
  }
  // A view may be the operand of several others.
  for (bool isDone = false; !isDone;) {
    isDone = true;
    for (Operation *view : llvm::to_vector(views))
      if (view->use_empty()) {
        views.remove(view);
        view->erase();
        isDone = false;
      }
  }
  for (ReadParameterOp read : matrix.reads)
    read.erase();
}

/// Reports a pattern that matches no frozen matrix.
static LogicalResult checkPatterns(ModuleOp module, const FrozenSpec &spec,
                                   ArrayRef<FrozenMatrix> matrices) {
  for (const auto *patterns : {&spec.keep, &spec.pack})
    for (const FrozenSpec::Pattern &pattern : *patterns)
      if (llvm::none_of(matrices, [&](const FrozenMatrix &matrix) {
            return pattern.matches(matrix.parameter);
          }))
        return module.emitError("frozen: expected a pattern that matches the "
                                "name of a frozen matrix, got '")
               << pattern.text << "'";
  return success();
}

static bool matchesAny(ArrayRef<FrozenSpec::Pattern> patterns,
                       ParameterOp parameter) {
  return llvm::any_of(patterns, [&](const FrozenSpec::Pattern &pattern) {
    return pattern.matches(parameter);
  });
}

static remark::RemarkOpts remarkOpts() {
  return remark::RemarkOpts::name("frozen").category("fcdp-pack-frozen");
}

LogicalResult PackFrozenPass::pack(const FrozenSpec &spec) {
  ModuleOp module = getOperation();
  SmallVector<FrozenMatrix> matrices = findFrozenMatrices(module);
  if (failed(checkPatterns(module, spec, matrices)))
    return failure();
  int64_t before = 0, after = 0, count = 0;
  std::string firstReason;
  for (FrozenMatrix &matrix : matrices) {
    bool isAsked = matchesAny(spec.pack, matrix.parameter);
    if (isAsked && !matrix.problem.empty())
      return matrix.parameter.emitError(
                 "frozen: cannot pack it as 'pack' asks: ")
             << matrix.problem;
    if (matrix.problem.empty() && matrix.isHead && !isAsked)
      matrix.problem = "it is an output head, which 'pack=' includes";
    if (matrix.problem.empty() && matchesAny(spec.keep, matrix.parameter))
      matrix.problem = "'keep=' excludes it";
    auto name = cast<StringAttr>(matrix.parameter.getNames()[0]).getValue();
    if (!matrix.problem.empty()) {
      std::string text = "'" + name.str() + "' stays whole: " + matrix.problem;
      if (firstReason.empty())
        firstReason = "; " + text;
      if (getContext().getRemarkEngine())
        remark::missed(matrix.parameter.getLoc(), remarkOpts())
            << "frozen: " + text;
      continue;
    }
    before += byteSize(matrix.parameter.getTensorType());
    rewrite(matrix, *spec.packing);
    after += byteSize(matrix.parameter.getTensorType());
    ++count;
  }
  if (count == 0)
    return module.emitError("frozen: expected a frozen matrix that only "
                            "products of matrices read, got none")
           << firstReason;
  if (getContext().getRemarkEngine())
    remark::passed(module.getLoc(), remarkOpts())
        << llvm::formatv("frozen: {0} of {1} frozen matrices are packed as "
                         "{2}, {3} instead of {4}",
                         count, matrices.size(),
                         stringifyPacking(*spec.packing), formatBytes(after),
                         formatBytes(before))
               .str();
  return success();
}

void PackFrozenPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(requireSteps(module)))
    return signalPassFailure();
  llvm::Expected<FrozenSpec> spec = parseFrozen(frozen);
  if (!spec) {
    module.emitError("frozen: ") << toString(spec.takeError());
    return signalPassFailure();
  }
  if (!spec->packing || getFrozen(module))
    return;
  if (failed(pack(*spec)))
    return signalPassFailure();
  setFrozen(module, frozen);
}
