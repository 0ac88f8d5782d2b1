// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Evaluation.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Import/Pt2Tensors.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

using namespace mlir;
using namespace fcdp;

namespace {
/// Reads the values of constants; gives none where there is no archive or no
/// value.
class ConstantValues {
public:
  explicit ConstantValues(ModuleOp module) {
    std::optional<StringRef> path = getArchive(module);
    if (!path)
      return;
    llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(*path);
    if (opened)
      tensors.emplace(std::move(*opened));
    else
      llvm::consumeError(opened.takeError());
  }

  std::optional<std::vector<char>> get(StringRef name) const {
    if (!tensors)
      return std::nullopt;
    llvm::Expected<std::vector<char>> value = tensors->readTensor(name);
    if (value && !value->empty())
      return std::move(*value);
    if (!value)
      llvm::consumeError(value.takeError());
    return std::nullopt;
  }

private:
  std::optional<Pt2Tensors> tensors;
};

/// Moves one evaluation into a step's module.
class EvaluationAdder {
public:
  EvaluationAdder(ModuleOp module, ModuleOp evaluation)
      : module(module), evaluation(evaluation), symbols(module),
        ownValues(evaluation), values(module) {}

  LogicalResult add();

private:
  LogicalResult checkSame();
  LogicalResult matchParameters();
  ParameterOp findParameter(ParameterOp own);
  LogicalResult takeBuffers();
  bool isShared(BufferOp own, BufferOp other);
  void takeInputs();
  void take(Operation *symbol);
  void rename(func::FuncOp function);

  InFlightDiagnostic fail(const Twine &what) {
    return evaluation.emitError("the evaluation ")
           << what << "; it must be exported from the same model as the step '"
           << getArchive(module).value_or("") << "'";
  }

  ModuleOp module, evaluation;
  SymbolTable symbols;
  const ConstantValues ownValues, values;
  /// The step's parameters by each of their names.
  llvm::DenseMap<StringRef, ParameterOp> byName;
  /// Symbols of the step's module by those of the evaluation's.
  llvm::DenseMap<StringAttr, FlatSymbolRefAttr> renamed;
};
} // namespace

LogicalResult EvaluationAdder::checkSame() {
  for (ModuleOp one : {module, evaluation})
    if (getPhase(one) != Phase::imported ||
        !one.lookupSymbol<func::FuncOp>("step"))
      return one.emitError("expected a step in phase 'imported', as "
                           "fcdp.export writes it, to evaluate with or for");
  if (getTarget(module) != getTarget(evaluation))
    return fail(Twine("runs on '") + getTarget(evaluation) +
                "', the step on '" + getTarget(module) + "'");
  return success();
}

ParameterOp EvaluationAdder::findParameter(ParameterOp own) {
  for (StringAttr name : own.getNames().getAsRange<StringAttr>())
    if (ParameterOp found = byName.lookup(name.getValue()))
      return found;
  return {};
}

LogicalResult EvaluationAdder::matchParameters() {
  for (auto parameter : module.getOps<ParameterOp>())
    for (StringAttr name : parameter.getNames().getAsRange<StringAttr>())
      byName[name.getValue()] = parameter;
  for (auto own : evaluation.getOps<ParameterOp>()) {
    ParameterOp found = findParameter(own);
    if (!found)
      return fail("has a parameter '" + own.getSymName() +
                  "', which the step lacks");
    for (StringAttr name : own.getNames().getAsRange<StringAttr>())
      if (byName.lookup(name.getValue()) != found)
        return fail("ties '" + name.getValue() + "' to '" + own.getSymName() +
                    "', which the step does not");
    if (found.getType() != own.getType())
      return fail("has a parameter '" + own.getSymName() + "' of another type")
             << ": expected " << found.getType() << ", got " << own.getType();
    renamed[own.getSymNameAttr()] =
        FlatSymbolRefAttr::get(found.getSymNameAttr());
  }
  return success();
}

/// Moves a symbol to the step's module, in front of its functions, under a name
/// that is free there.
void EvaluationAdder::take(Operation *symbol) {
  StringAttr before = SymbolTable::getSymbolName(symbol);
  symbol->remove();
  SymbolTable::setSymbolName(symbol, ("evaluation." + before.getValue()).str());
  Operation *functions = *module.getOps<func::FuncOp>().begin();
  renamed[before] = FlatSymbolRefAttr::get(
      symbols.insert(symbol, Block::iterator(functions)));
}

/// Returns whether both are one buffer. The values of those that are not
/// persistent are in the archives.
bool EvaluationAdder::isShared(BufferOp own, BufferOp other) {
  if (own.getType() != other.getType() ||
      own.getPersistent() != other.getPersistent())
    return false;
  if (own.getPersistent())
    return true;
  std::optional<std::vector<char>> value = ownValues.get(own.getName());
  return value && !other.getMutableBuffer() &&
         value == values.get(other.getName());
}

LogicalResult EvaluationAdder::takeBuffers() {
  llvm::DenseMap<StringAttr, BufferOp> buffers;
  for (auto buffer : module.getOps<BufferOp>())
    buffers[buffer.getNameAttr()] = buffer;
  for (BufferOp own : llvm::to_vector(evaluation.getOps<BufferOp>())) {
    BufferOp other = buffers.lookup(own.getNameAttr());
    if (other && isShared(own, other)) {
      renamed[own.getSymNameAttr()] =
          FlatSymbolRefAttr::get(other.getSymNameAttr());
      continue;
    }
    // Both would be states of that name.
    if (other && own.getPersistent())
      return fail("has a persistent buffer '" + own.getName() +
                  "' that differs from the step's")
             << ": expected " << other.getType()
             << (other.getPersistent() ? "" : ", not persistent") << ", got "
             << own.getType();
    own.setEvaluation(true);
    take(own);
  }
  return success();
}

void EvaluationAdder::takeInputs() {
  for (InputOp input : llvm::to_vector(evaluation.getOps<InputOp>())) {
    input.setEvaluation(true);
    take(input);
  }
}

/// Erases gradients, and all that only they need. Random numbers that are drawn
/// behind the loss do not change it.
static LogicalResult keepLossOnly(func::FuncOp function) {
  for (auto write : function.getOps<WriteBufferOp>())
    return function->getParentOp()->emitError(
               "the evaluation changes the buffer @")
           << write.getTarget()
           << ", which only a step may: export it after model.eval()";
  Operation *last = nullptr;
  for (auto loss : function.getOps<LossOp>())
    last = loss.getValue().getDefiningOp();
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.front()))) {
    bool isBehind = isa<aten::CallOp>(op) && op.use_empty() && last &&
                    last->isBeforeInBlock(&op);
    if (isa<GradientOp>(op) || isBehind || isOpTriviallyDead(&op))
      op.erase();
  }
  return success();
}

void EvaluationAdder::rename(func::FuncOp function) {
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](FlatSymbolRefAttr symbol) -> std::optional<Attribute> {
        FlatSymbolRefAttr other = renamed.lookup(symbol.getAttr());
        return other ? std::optional<Attribute>(other) : std::nullopt;
      });
  replacer.recursivelyReplaceElementsIn(function);
}

LogicalResult EvaluationAdder::add() {
  if (failed(checkSame()) || failed(matchParameters()))
    return failure();
  auto function = evaluation.lookupSymbol<func::FuncOp>("step");
  if (failed(keepLossOnly(function)) || failed(takeBuffers()))
    return failure();
  takeInputs();
  rename(function);
  function->remove();
  function.setSymName("evaluate");
  symbols.insert(function, module.getBody()->end());
  if (std::optional<StringRef> archive = getArchive(evaluation))
    setEvaluationArchive(module, *archive);
  return success();
}

LogicalResult fcdp::evaluateAlone(ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>("step");
  if (getPhase(module) != Phase::imported || !function)
    return module.emitError("expected a step in phase 'imported', as "
                            "fcdp.export writes it, to evaluate");
  if (failed(keepLossOnly(function)))
    return failure();
  for (auto parameter : module.getOps<ParameterOp>())
    parameter.setTrainable(false);
  for (auto input : module.getOps<InputOp>())
    input.setEvaluation(true);
  OpBuilder builder(function);
  auto step = func::FuncOp::create(builder, function.getLoc(), "step",
                                   builder.getFunctionType({}, {}));
  OpBuilder body = OpBuilder::atBlockBegin(step.addEntryBlock());
  func::ReturnOp::create(body, step.getLoc());
  function.setSymName("evaluate");
  return success();
}

LogicalResult fcdp::addEvaluation(ModuleOp module, ModuleOp evaluation) {
  return EvaluationAdder(module, evaluation).add();
}
