// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Import/Variants.h"

#include "AddedProgram.h"
#include "fcdp/Analysis/StepFunctions.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// Adds one variant after the existing ones of a step.
class VariantAdder {
public:
  VariantAdder(ModuleOp module, ModuleOp variant)
      : module(module), variant(variant), number(countVariants(module)),
        program(module, variant, "variant " + std::to_string(number),
                "variant" + std::to_string(number) + ".") {}

  LogicalResult add();

private:
  LogicalResult checkTrained();
  LogicalResult takeBuffers();
  LogicalResult takeInputs();
  LogicalResult checkGrowth(InputOp before, InputOp own);

  ModuleOp module, variant;
  const int64_t number;
  AddedProgram program;
  /// Whether a shape is greater than in the variant before.
  bool grows = false;
};
} // namespace

/// Checks that both train the same parameters.
LogicalResult VariantAdder::checkTrained() {
  llvm::DenseMap<StringRef, ParameterOp> byName;
  for (auto own : variant.getOps<ParameterOp>())
    for (StringAttr name : own.getNames().getAsRange<StringAttr>())
      byName[name.getValue()] = own;
  for (auto parameter : module.getOps<ParameterOp>()) {
    auto name = cast<StringAttr>(parameter.getNames()[0]).getValue();
    ParameterOp own = byName.lookup(name);
    if (!own)
      return program.fail("lacks the parameter '" + name + "'");
    if (own.getTrainable() != parameter.getTrainable())
      return program.fail((own.getTrainable() ? "trains" : "does not train") +
                          Twine(" the parameter '") + name +
                          "', unlike the others: the model has it frozen, or "
                          "the loss of the example inputs does not depend on "
                          "it, for one and not for another");
  }
  return success();
}

LogicalResult VariantAdder::takeBuffers() {
  llvm::DenseMap<StringRef, BufferOp> ofStep;
  for (auto buffer : module.getOps<BufferOp>())
    if (buffer.getPersistent())
      ofStep[buffer.getName()] = buffer;
  for (auto own : variant.getOps<BufferOp>()) {
    BufferOp other = ofStep.lookup(own.getName());
    if (other && other.getMutableBuffer() != own.getMutableBuffer())
      return program.fail(
          (own.getMutableBuffer() ? "changes" : "does not change") +
          Twine(" the buffer '") + own.getName() + "', unlike the others");
  }
  return program.takeBuffers([&](BufferOp own) -> LogicalResult {
    if (own.getPersistent())
      return program.fail("has a persistent buffer '" + own.getName() +
                          "', which the others lack");
    if (own.getMutableBuffer())
      return program.fail("changes the buffer '" + own.getName() +
                          "', which is not persistent, so that its value "
                          "would be another in each variant");
    own.setVariant(number);
    return success();
  });
}

static std::string describe(RankedTensorType type) {
  std::string text = "[";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(type.getShape(), stream);
  stream << "] of " << type.getElementType();
  return text;
}

LogicalResult VariantAdder::checkGrowth(InputOp before, InputOp own) {
  auto least = cast<RankedTensorType>(before.getType());
  auto type = cast<RankedTensorType>(own.getType());
  bool fits = least.getElementType() == type.getElementType() &&
              least.getRank() == type.getRank();
  for (int64_t i = 0; fits && i < type.getRank(); ++i)
    fits = type.getDimSize(i) >= least.getDimSize(i);
  if (!fits)
    return program.fail("has an input '" + own.getName() +
                        "' that does not hold that of the variant before it: "
                        "expected at least " +
                        describe(least) + ", got " + describe(type));
  grows |= type != least;
  return success();
}

/// Takes the inputs in the order of the variant before.
LogicalResult VariantAdder::takeInputs() {
  llvm::MapVector<StringRef, InputOp> own;
  for (auto input : variant.getOps<InputOp>())
    own[input.getName()] = input;
  for (InputOp before : llvm::to_vector(module.getOps<InputOp>())) {
    if (before.getVariant().value_or(0) != uint64_t(number - 1))
      continue;
    InputOp input = own.lookup(before.getName());
    if (!input)
      return program.fail("lacks the input '" + before.getName() + "'");
    if (failed(checkGrowth(before, input)))
      return failure();
    own.erase(before.getName());
    input.setVariant(number);
    program.takeInput(input);
  }
  if (!own.empty())
    return program.fail("has an input '" + own.front().first +
                        "', which the others lack");
  if (!grows)
    return program.fail("has the shapes of the variant before it: expected one "
                        "input at least that is greater");
  return success();
}

LogicalResult VariantAdder::add() {
  if (failed(program.checkSame()))
    return failure();
  if (module.lookupSymbol("evaluate"))
    return module.emitError("expected a step without an evaluation, to which "
                            "shapes can be added");
  std::string name = "step." + std::to_string(number);
  if (module.lookupSymbol(name))
    return module.emitError("expected no symbol @")
           << name << ", which a step of several shapes has for itself";
  if (failed(program.matchParameters()) || failed(checkTrained()) ||
      failed(takeBuffers()) || failed(takeInputs()))
    return failure();
  setVariant(program.takeFunction(name), number);
  if (number == 1)
    setVariant(module.lookupSymbol<func::FuncOp>("step"), 0);
  SmallVector<StringRef> archives = getVariantArchives(module);
  archives.push_back(getArchive(variant).value_or(""));
  setVariantArchives(module, archives);
  return success();
}

LogicalResult fcdp::addVariant(ModuleOp module, ModuleOp variant) {
  return VariantAdder(module, variant).add();
}
