// SPDX-License-Identifier: Apache-2.0

#include "Declarations.h"

#include "Archive.h"
#include "Types.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

namespace {
class Declarer {
public:
  Declarer(const Program &program, const Extras &extras, Location location,
           OpBuilder &builder)
      : program(program), extras(extras), location(location), builder(builder) {
    for (size_t role = 0; role < kNumRoles; ++role)
      symbols.insert(stringifyRole(static_cast<Role>(role)));
  }

  Expected<Declarations> declare();

private:
  using Kind = InputSpec::Kind;

  Error readTypes();
  Error groupTies();
  Error readOutputs();
  void declareParameters();
  void declareBuffers();
  void declareInputs();

  std::string makeSymbol(StringRef name);
  bool isParameter(StringRef name) const {
    return parameterTypes.contains(name);
  }

  const Program &program;
  const Extras &extras;
  Location location;
  OpBuilder &builder;

  Declarations result;
  llvm::DenseMap<StringRef, RankedTensorType> parameterTypes;
  /// The copies of each root in PyTorch's order, and the root of each copy.
  llvm::DenseMap<StringRef, std::vector<StringRef>> copies;
  llvm::DenseMap<StringRef, StringRef> roots;
  llvm::DenseMap<StringRef, FlatSymbolRefAttr> parameterSymbols;
  llvm::DenseSet<StringRef> mutated;
  /// The names in use. They include the names that later phases give to
  /// functions and to the mesh.
  llvm::StringSet<> symbols{"step", "evaluate", "world"};
};
} // namespace

static StringRef describe(InputSpec::Kind kind) {
  switch (kind) {
  case InputSpec::Kind::Parameter:
    return "parameter";
  case InputSpec::Kind::Buffer:
    return "buffer";
  case InputSpec::Kind::TensorConstant:
    return "constant";
  case InputSpec::Kind::UserInput:
    return "input";
  }
  llvm_unreachable("all kinds are above");
}

std::string Declarer::makeSymbol(StringRef name) {
  std::string symbol = name.str();
  for (unsigned i = 0; !symbols.insert(symbol).second; ++i)
    symbol = (name + "_" + Twine(i)).str();
  return symbol;
}

Error Declarer::readTypes() {
  for (const InputSpec &input : program.inputs) {
    std::string what = (describe(input.kind) + " '" + input.name + "'").str();
    const Json *meta = program.tensors.lookup(input.value);
    if (!meta)
      return makeError(what + " has no type");
    Expected<RankedTensorType> type =
        getTensorType(*meta, what, builder.getContext());
    if (!type)
      return type.takeError();
    if (input.kind == Kind::Parameter) {
      if (!isa<FloatType>(type->getElementType()))
        return makeError("parameter '" + input.name +
                         "' does not hold floating-point numbers");
      parameterTypes.insert({input.name, *type});
    }
    result.inputs.push_back({input.value, {input.kind, {}, *type}});
  }
  return Error::success();
}

Error Declarer::groupTies() {
  for (const auto &[copy, root] : extras.ties) {
    for (StringRef name : {StringRef(copy), StringRef(root)})
      if (!isParameter(name))
        return makeError("'extra/fcdp.json' ties '" + copy + "' to '" + root +
                         "', but '" + name + "' is no parameter");
    if (parameterTypes[copy] != parameterTypes[root])
      return makeError("'extra/fcdp.json' ties '" + copy + "' to '" + root +
                       "', which has another shape or type");
    if (!roots.insert({copy, root}).second)
      return makeError("'extra/fcdp.json' ties '" + copy + "' twice");
  }
  for (const auto &[copy, root] : extras.ties)
    if (roots.contains(root))
      return makeError("'extra/fcdp.json' ties '" + copy + "' to '" + root +
                       "', which is itself a copy");
  for (const InputSpec &input : program.inputs)
    if (auto found = roots.find(input.name);
        input.kind == Kind::Parameter && found != roots.end())
      copies[found->second].push_back(input.name);
  return Error::success();
}

Error Declarer::readOutputs() {
  llvm::DenseSet<StringRef> buffers;
  for (const InputSpec &input : program.inputs)
    if (input.kind == Kind::Buffer)
      buffers.insert(input.name);
  for (const OutputSpec &output : program.outputs) {
    if (output.kind == OutputSpec::Kind::Gradient) {
      if (!isParameter(output.target))
        return makeError("gradient '" + output.value + "' is of '" +
                         output.target + "', which is no parameter");
      if (!result.gradients.insert({output.target, output.value}).second)
        return makeError("parameter '" + output.target + "' has two gradients");
    } else if (output.kind == OutputSpec::Kind::BufferMutation) {
      if (!buffers.contains(output.target))
        return makeError("output '" + output.value + "' changes '" +
                         output.target + "', which is no buffer");
      if (!mutated.insert(output.target).second)
        return makeError("buffer '" + output.target + "' is changed twice");
    }
  }
  return Error::success();
}

/// Declares the parameters. A tied parameter is at the position of the first of
/// its names in PyTorch.
void Declarer::declareParameters() {
  for (const InputSpec &input : program.inputs) {
    if (input.kind != Kind::Parameter)
      continue;
    StringRef root = input.name;
    if (auto found = roots.find(root); found != roots.end())
      root = found->second;
    FlatSymbolRefAttr &symbol = parameterSymbols[root];
    if (symbol)
      continue;
    Parameter &parameter = result.parameters.emplace_back();
    parameter.type = parameterTypes[root];
    parameter.names.push_back(root);
    if (auto found = copies.find(root); found != copies.end())
      llvm::append_range(parameter.names, found->second);
    bool trainable = any_of(parameter.names, [&](StringRef name) {
      return result.gradients.contains(name);
    });
    auto op = ParameterOp::create(
        builder, location, makeSymbol(root), parameter.type,
        extras.getUnit(root), trainable,
        builder.getStrArrayAttr(parameter.names), GroupAttr(), PackedAttr());
    symbol = parameter.symbol = FlatSymbolRefAttr::get(op.getSymNameAttr());
  }
}

void Declarer::declareBuffers() {
  for (auto [spec, input] : zip_equal(program.inputs, result.inputs)) {
    if (spec.kind != Kind::Buffer && spec.kind != Kind::TensorConstant)
      continue;
    bool isBuffer = spec.kind == Kind::Buffer;
    auto op = BufferOp::create(
        builder, location, makeSymbol(spec.name), input.second.type, spec.name,
        isBuffer && spec.persistent, isBuffer && mutated.contains(spec.name),
        /*evaluation=*/false, /*variant=*/nullptr);
    input.second.symbol = FlatSymbolRefAttr::get(op.getSymNameAttr());
    if (isBuffer)
      result.buffers.insert(
          {spec.name, {input.second.symbol, input.second.type}});
  }
}

void Declarer::declareInputs() {
  for (auto [spec, input] : zip_equal(program.inputs, result.inputs)) {
    if (spec.kind != Kind::UserInput)
      continue;
    auto op = InputOp::create(builder, location, makeSymbol(spec.name),
                              input.second.type, spec.name,
                              /*limit=*/nullptr, /*ignore=*/nullptr,
                              /*evaluation=*/false, /*variant=*/nullptr);
    input.second.symbol = FlatSymbolRefAttr::get(op.getSymNameAttr());
  }
}

Expected<Declarations> Declarer::declare() {
  if (Error error = readTypes())
    return error;
  if (Error error = groupTies())
    return error;
  if (Error error = readOutputs())
    return error;
  declareParameters();
  declareBuffers();
  declareInputs();
  for (auto [spec, input] : zip_equal(program.inputs, result.inputs))
    if (spec.kind == Kind::Parameter) {
      StringRef root = roots.lookup(spec.name);
      input.second.symbol =
          parameterSymbols.lookup(root.empty() ? spec.name : root);
    }
  return std::move(result);
}

Expected<Declarations> fcdp::pt2::declare(const Program &program,
                                          const Extras &extras,
                                          Location location,
                                          OpBuilder &builder) {
  return Declarer(program, extras, location, builder).declare();
}
