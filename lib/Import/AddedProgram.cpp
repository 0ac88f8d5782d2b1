// SPDX-License-Identifier: Apache-2.0

#include "AddedProgram.h"

using namespace mlir;
using namespace fcdp;

ConstantValues::ConstantValues(ModuleOp module) {
  std::optional<StringRef> path = getArchive(module);
  if (!path)
    return;
  llvm::Expected<Pt2Tensors> opened = Pt2Tensors::open(*path);
  if (opened)
    tensors.emplace(std::move(*opened));
  else
    llvm::consumeError(opened.takeError());
}

std::optional<std::vector<char>> ConstantValues::get(StringRef name) const {
  if (!tensors)
    return std::nullopt;
  llvm::Expected<std::vector<char>> value = tensors->readTensor(name);
  if (value && !value->empty())
    return std::move(*value);
  if (!value)
    llvm::consumeError(value.takeError());
  return std::nullopt;
}

AddedProgram::AddedProgram(ModuleOp module, ModuleOp program, std::string what,
                           std::string prefix)
    : module(module), program(program), symbols(module), ownValues(program),
      values(module), what(std::move(what)), prefix(std::move(prefix)) {}

InFlightDiagnostic AddedProgram::fail(const Twine &how) {
  return program.emitError(what + " ")
         << how << "; it must be exported from the same model as the step '"
         << getArchive(module).value_or("") << "'";
}

LogicalResult AddedProgram::checkSame() {
  for (ModuleOp one : {module, program})
    if (getPhase(one) != Phase::imported ||
        !one.lookupSymbol<func::FuncOp>("step"))
      return one.emitError(
          "expected a step in phase 'imported', as "
          "fcdp.export writes it, to put together with another");
  if (getTarget(module) != getTarget(program))
    return fail(Twine("runs on '") + stringifyTarget(getTarget(program)) +
                "', the step on '" + stringifyTarget(getTarget(module)) + "'");
  return success();
}

ParameterOp AddedProgram::findParameter(ParameterOp own) {
  for (StringAttr name : own.getNames().getAsRange<StringAttr>())
    if (ParameterOp found = byName.lookup(name.getValue()))
      return found;
  return {};
}

LogicalResult AddedProgram::matchParameters() {
  for (auto parameter : module.getOps<ParameterOp>())
    for (StringAttr name : parameter.getNames().getAsRange<StringAttr>())
      byName[name.getValue()] = parameter;
  for (auto own : program.getOps<ParameterOp>()) {
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

/// Moves a symbol to the step's module, before its functions, under a name that
/// is free there.
void AddedProgram::take(Operation *symbol) {
  StringAttr before = SymbolTable::getSymbolName(symbol);
  symbol->remove();
  SymbolTable::setSymbolName(symbol, prefix + before.getValue().str());
  Operation *functions = *module.getOps<func::FuncOp>().begin();
  renamed[before] = FlatSymbolRefAttr::get(
      symbols.insert(symbol, Block::iterator(functions)));
}

/// Returns whether both are one buffer. A buffer that the step changes and the
/// program reads has the value after the last step, not the value at the
/// export. The values of other buffers that are not persistent are in the
/// archives.
bool AddedProgram::isShared(BufferOp own, BufferOp other) {
  if (own.getType() != other.getType() ||
      own.getPersistent() != other.getPersistent())
    return false;
  bool isRead = other.getMutableBuffer() && !own.getMutableBuffer();
  if (own.getPersistent() || isRead)
    return true;
  std::optional<std::vector<char>> value = ownValues.get(own.getName());
  return value && !other.getMutableBuffer() &&
         value == values.get(other.getName());
}

LogicalResult
AddedProgram::takeBuffers(function_ref<LogicalResult(BufferOp)> mark) {
  llvm::DenseMap<StringAttr, BufferOp> buffers;
  for (auto buffer : module.getOps<BufferOp>())
    if (!buffer.getVariant()) // else it is another program's own
      buffers[buffer.getNameAttr()] = buffer;
  for (BufferOp own : llvm::to_vector(program.getOps<BufferOp>())) {
    BufferOp other = buffers.lookup(own.getNameAttr());
    if (other && isShared(own, other)) {
      renamed[own.getSymNameAttr()] =
          FlatSymbolRefAttr::get(other.getSymNameAttr());
      continue;
    }
    // Both would be states with that name.
    if (other && own.getPersistent())
      return fail("has a persistent buffer '" + own.getName() +
                  "' that differs from the step's")
             << ": expected " << other.getType()
             << (other.getPersistent() ? "" : ", not persistent") << ", got "
             << own.getType();
    if (failed(mark(own)))
      return failure();
    take(own);
  }
  return success();
}

func::FuncOp AddedProgram::takeFunction(StringRef name) {
  auto function = program.lookupSymbol<func::FuncOp>("step");
  AttrTypeReplacer replacer;
  replacer.addReplacement(
      [&](FlatSymbolRefAttr symbol) -> std::optional<Attribute> {
        FlatSymbolRefAttr other = renamed.lookup(symbol.getAttr());
        return other ? std::optional<Attribute>(other) : std::nullopt;
      });
  replacer.recursivelyReplaceElementsIn(function);
  function->remove();
  function.setSymName(name);
  symbols.insert(function, module.getBody()->end());
  return function;
}
