// SPDX-License-Identifier: Apache-2.0

#include "Step.h"

#include "Archive.h"
#include "Arguments.h"
#include "Labels.h"
#include "Types.h"
#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace mlir;
using namespace fcdp;
using namespace fcdp::pt2;

namespace {
class StepEmitter {
public:
  StepEmitter(const Program &program, const Declarations &declarations,
              Location location, OpBuilder &builder)
      : program(program), declarations(declarations), location(location),
        builder(builder), labels(builder.getContext()) {}

  Error emit();

private:
  Error emitReads();
  Error emitNode(const Node &node);
  void annotateOrder(aten::CallOp call, ArrayRef<StringRef> names);
  Error emitLoss();
  Error emitGradients();
  Error emitBuffers();

  Error define(StringRef name, Value value);
  Expected<Value> getOutput(StringRef name, const Twine &what) const;
  /// Types and names of a node's results, and the positions of its undefined
  /// results.
  struct Results {
    SmallVector<StringRef> names;
    SmallVector<Type> types;
    SmallVector<int64_t> undefined;
  };
  Expected<Results> readResults(const Node &node);

  const Program &program;
  const Declarations &declarations;
  Location location;
  OpBuilder &builder;
  Labels labels;
  Values values;
};
} // namespace

static std::string describe(const Node &node) {
  return ("node '" + node.name + "' (" + node.target + ")").str();
}

/// Returns whether the runtime has the operator, beside those of ATen
/// (runtime/operators/OwnOperators.cpp).
static bool isRuntimesOwn(StringRef callee) {
  return callee == "fcdp.packed_attention.default" ||
         callee == "fcdp.packed_attention_backward.default";
}

/// Returns the callee of aten.call, or an error if the node is not a functional
/// operator.
static Expected<StringRef> getCallee(const Node &node) {
  StringRef callee = node.target;
  if (callee.starts_with("_operator.") || callee.starts_with("math.") ||
      callee.starts_with("torch.sym_"))
    return makeError(
        describe(node) +
        " computes a size at run time: only static "
        "shapes are supported so far; export without dynamic_shapes");
  if (!callee.consume_front("torch.ops."))
    return makeError(describe(node) + " is no operator: expected a target "
                                      "'torch.ops.NAMESPACE.OP.OVERLOAD'");
  SmallVector<StringRef> parts;
  callee.split(parts, '.');
  if (parts.front() == "higher_order")
    return makeError(describe(node) +
                     " is a higher-order operator, which is not "
                     "supported");
  if (parts.size() != 3 ||
      any_of(parts, [](StringRef part) { return part.empty(); }))
    return makeError(describe(node) + " is no operator: expected a target "
                                      "'torch.ops.NAMESPACE.OP.OVERLOAD'");
  if (parts.front() != "aten" && !isRuntimesOwn(callee))
    return makeError(describe(node) +
                     " is none of PyTorch's own operators (aten), and the "
                     "runtime calls no other");
  // `add_` changes its argument in place; `__and__` does not.
  if (parts[1].ends_with("_") && !parts[1].ends_with("__"))
    return makeError(describe(node) + " changes its argument: only functional "
                                      "operators are supported");
  return callee;
}

/// Returns whether the callee is an assertion of the traced program. Assertions
/// hold for every step, because shapes are static.
static bool isAssertion(StringRef callee) {
  StringRef name = callee.split('.').second;
  return name.starts_with("_assert") || name.starts_with("sym_constrain_range");
}

Error StepEmitter::define(StringRef name, Value value) {
  if (!values.insert({name, value}).second)
    return makeError("value '" + name + "' is defined twice");
  return Error::success();
}

Error StepEmitter::emitReads() {
  // All names of a tied parameter share one read.
  llvm::DenseMap<Attribute, Value> reads;
  for (const auto &[name, input] : declarations.inputs) {
    Value &read = reads[input.symbol];
    if (!read) {
      switch (input.kind) {
      case InputSpec::Kind::Parameter:
        read = ReadParameterOp::create(builder, location, input.type,
                                       input.symbol);
        break;
      case InputSpec::Kind::Buffer:
      case InputSpec::Kind::TensorConstant:
        read =
            ReadBufferOp::create(builder, location, input.type, input.symbol);
        break;
      case InputSpec::Kind::UserInput:
        read = ReadInputOp::create(builder, location, input.type, input.symbol);
        break;
      }
    }
    if (Error error = define(name, read))
      return error;
  }
  return Error::success();
}

Expected<StepEmitter::Results> StepEmitter::readResults(const Node &node) {
  Results results;
  auto position = [&] {
    return static_cast<int64_t>(results.types.size() +
                                results.undefined.size());
  };
  auto add = [&](const Json &tensor) -> Error {
    StringRef name = tensor["name"].asString().value_or("");
    const Json *meta = program.tensors.lookup(name);
    if (!meta)
      return makeError("result '" + name + "' of " + describe(node) +
                       " has no type");
    Expected<RankedTensorType> type =
        getTensorType(*meta, "result '" + name + "' of " + describe(node),
                      builder.getContext());
    if (!type)
      return type.takeError();
    results.names.push_back(name);
    results.types.push_back(*type);
    return Error::success();
  };
  for (const Json &output : node.outputs) {
    if (output.members().size() != 1)
      return makeError(describe(node) + " has a result without a kind");
    const auto &[kind, value] = output.members().front();
    if (kind == "as_none") {
      results.undefined.push_back(position());
    } else if (kind == "as_tensor") {
      if (Error error = add(value))
        return error;
    } else if (kind == "as_tensors") {
      for (const Json &tensor : value.elements())
        if (Error error = add(tensor))
          return error;
    } else if (kind == "as_sym_int" &&
               program.integers.contains(
                   value["as_name"].asString().value_or(""))) {
      // The integer is a constant in the arguments that use it.
      results.undefined.push_back(position());
    } else if (kind == "as_sym_int") {
      return makeError(describe(node) +
                       " computes a size at run time: only "
                       "static shapes are supported so far; export without "
                       "dynamic_shapes");
    } else {
      return makeError(describe(node) +
                       " has a result of the unsupported kind '" + kind + "'");
    }
  }
  return results;
}

/// Returns whether the kernel of another device, which may use another order of
/// dimensions, computes the call's result: attention, and products with the
/// inverse deviation of a norm.
static bool isInOtherKernels(aten::CallOp call) {
  if (call.getCallee() == "aten.mul.Tensor")
    return llvm::any_of(call.getOperands(), [](Value factor) {
      auto from = factor.getDefiningOp<aten::CallOp>();
      return from && from.getCallee() == "aten.rsqrt.default";
    });
  return call.getCallee() == "fcdp.packed_attention.default" ||
         call.getCallee() ==
             "aten._scaled_dot_product_flash_attention_for_cpu.default";
}

/// Records the order of dimensions in the memory of the call's result, because
/// later views rely on it.
void StepEmitter::annotateOrder(aten::CallOp call, ArrayRef<StringRef> names) {
  if (names.empty() || !isInOtherKernels(call))
    return;
  SmallVector<int64_t> strides;
  const Json &meta = *program.tensors.lookup(names.front());
  for (const Json &stride : meta["strides"].elements())
    strides.push_back(stride["as_int"].asInteger().value_or(0));
  int64_t rank = cast<RankedTensorType>(call.getResult(0).getType()).getRank();
  SmallVector<int64_t> order = to_vector(seq<int64_t>(0, rank));
  if (static_cast<int64_t>(strides.size()) != rank)
    return;
  llvm::sort(order, [&](int64_t a, int64_t b) {
    return std::pair(-strides[a], a) < std::pair(-strides[b], b);
  });
  if (!is_sorted(order))
    setDimOrder(call, order);
}

Error StepEmitter::emitNode(const Node &node) {
  Expected<StringRef> callee = getCallee(node);
  if (!callee)
    return callee.takeError();
  if (node.outputs.empty()) {
    if (isAssertion(*callee))
      return Error::success();
    return makeError(describe(node) +
                     " has no result: only functional operators "
                     "are supported");
  }
  Expected<CallArguments> arguments =
      convertArguments(node, values, program.integers, builder);
  if (!arguments)
    return arguments.takeError();
  Expected<Results> results = readResults(node);
  if (!results)
    return results.takeError();
  const Label &label = labels.get(node);
  auto call = aten::CallOp::create(
      builder, label.location, results->types, builder.getStringAttr(*callee),
      arguments->operands, builder.getArrayAttr(arguments->names),
      builder.getArrayAttr(arguments->values),
      results->undefined.empty()
          ? nullptr
          : builder.getDenseI64ArrayAttr(results->undefined));
  annotateOrder(call, results->names);
  if (label.checkpointRegion)
    setCheckpointRegion(call, *label.checkpointRegion);
  for (auto [name, result] : zip_equal(results->names, call.getResults()))
    if (Error error = define(name, result))
      return error;
  return Error::success();
}

Expected<Value> StepEmitter::getOutput(StringRef name,
                                       const Twine &what) const {
  if (Value value = values.lookup(name))
    return value;
  return makeError(what + " is '" + name + "', which is not defined");
}

Error StepEmitter::emitLoss() {
  for (const OutputSpec &output : program.outputs) {
    if (output.kind != OutputSpec::Kind::Loss)
      continue;
    Expected<Value> value = getOutput(output.value, "the loss");
    if (!value)
      return value.takeError();
    auto type = cast<RankedTensorType>(value->getType());
    if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType()))
      return makeError("expected the loss '" + output.value +
                       "' to be one floating-point number");
    LossOp::create(builder, value->getLoc(), *value);
  }
  return Error::success();
}

/// Emits the gradients. The gradient of a tied parameter is the sum over its
/// names.
Error StepEmitter::emitGradients() {
  for (const Parameter &parameter : declarations.parameters) {
    Value sum;
    for (StringRef name : parameter.names) {
      auto found = declarations.gradients.find(name);
      if (found == declarations.gradients.end())
        continue;
      Expected<Value> value =
          getOutput(found->second, "the gradient of '" + name + "'");
      if (!value)
        return value.takeError();
      auto type = cast<RankedTensorType>(value->getType());
      if (type.getShape() != parameter.type.getShape())
        return makeError("the gradient '" + found->second + "' of '" + name +
                         "' has another shape than the parameter");
      if (!sum) {
        sum = *value;
        continue;
      }
      if (sum.getType() != type)
        return makeError("the gradient '" + found->second + "' of '" + name +
                         "' has another type than that of '" +
                         parameter.names.front() + "', which it is tied to");
      Attribute arguments[] = {aten::OperandAttr::get(builder.getContext(), 0),
                               aten::OperandAttr::get(builder.getContext(), 1)};
      sum = aten::CallOp::create(builder, value->getLoc(), TypeRange(type),
                                 builder.getStringAttr("aten.add.Tensor"),
                                 ValueRange{sum, *value},
                                 builder.getStrArrayAttr({"self", "other"}),
                                 builder.getArrayAttr(arguments),
                                 /*undefined=*/nullptr)
                .getResult(0);
    }
    if (sum)
      GradientOp::create(builder, sum.getLoc(), sum, parameter.symbol);
  }
  return Error::success();
}

Error StepEmitter::emitBuffers() {
  for (const OutputSpec &output : program.outputs) {
    if (output.kind != OutputSpec::Kind::BufferMutation)
      continue;
    Expected<Value> value = getOutput(
        output.value, "the next value of buffer '" + output.target + "'");
    if (!value)
      return value.takeError();
    const auto &[symbol, type] =
        declarations.buffers.find(output.target)->second;
    if (value->getType() != type)
      return makeError("the next value '" + output.value + "' of buffer '" +
                       output.target + "' has another type than the buffer");
    WriteBufferOp::create(builder, value->getLoc(), *value, symbol);
  }
  return Error::success();
}

Error StepEmitter::emit() {
  OpBuilder::InsertionGuard guard(builder);
  auto step = func::FuncOp::create(builder, location, "step",
                                   builder.getFunctionType({}, {}));
  builder.setInsertionPointToStart(step.addEntryBlock());
  if (Error error = emitReads())
    return error;
  for (const Node &node : program.nodes)
    if (Error error = emitNode(node))
      return error;
  if (Error error = emitLoss())
    return error;
  if (Error error = emitGradients())
    return error;
  if (Error error = emitBuffers())
    return error;
  func::ReturnOp::create(builder, location);

  for (Operation &op : make_early_inc_range(step.getBody().front()))
    if (!isa<aten::CallOp>(op) && isOpTriviallyDead(&op))
      op.erase();
  return Error::success();
}

Error fcdp::pt2::emitStep(const Program &program,
                          const Declarations &declarations, Location location,
                          OpBuilder &builder) {
  return StepEmitter(program, declarations, location, builder).emit();
}
