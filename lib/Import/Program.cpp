// SPDX-License-Identifier: Apache-2.0

#include "Program.h"

#include "Archive.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace fcdp;
using namespace fcdp::pt2;

/// The supported major version of torch/_export/serde/schema.py. Minor versions
/// only add fields.
static constexpr int64_t kSchemaMajor = 8;

static StringRef text(const Json &json) { return json.asString().value_or(""); }

/// Returns the single member of a spec: its kind and its content.
static Expected<const JsonMember *> only(const Json &spec, StringRef what) {
  if (spec.members().size() != 1)
    return makeError("the signature has an " + what + " without a kind");
  return &spec.members().front();
}

/// Reads the spec of a user input if it is a tensor. Python constants and None
/// are part of the graph already.
static Error readUserInput(const Json &arg, std::vector<InputSpec> &inputs) {
  StringRef name = text(arg["as_tensor"]["name"]);
  if (!name.empty()) {
    inputs.push_back({InputSpec::Kind::UserInput, name, name});
    return Error::success();
  }
  for (StringRef constant :
       {"as_none", "as_int", "as_float", "as_bool", "as_string"})
    if (!arg[constant].isNull())
      return Error::success();
  if (arg["as_sym_int"].isObject())
    return makeError(
        "input '" + text(arg["as_sym_int"]["as_name"]) +
        "' is a symbolic integer: only static shapes are supported "
        "so far; export without dynamic_shapes");
  StringRef kind =
      arg.members().empty() ? "nothing" : arg.members().front().name;
  return makeError("expected inputs that are tensors, got '" + kind + "'");
}

static Error readInputSpec(const Json &spec, std::vector<InputSpec> &inputs) {
  Expected<const JsonMember *> kind = only(spec, "input");
  if (!kind)
    return kind.takeError();
  const Json &content = (*kind)->value;
  auto add = [&](InputSpec::Kind kind, StringRef nameKey) -> Error {
    StringRef value = text(content["arg"]["name"]);
    StringRef name = text(content[nameKey]);
    if (value.empty() || name.empty())
      return makeError("the signature has an input without a name");
    bool persistent = content["persistent"].asBoolean().value_or(false);
    inputs.push_back({kind, value, name, persistent});
    return Error::success();
  };
  StringRef what = (*kind)->name;
  if (what == "parameter")
    return add(InputSpec::Kind::Parameter, "parameter_name");
  if (what == "buffer")
    return add(InputSpec::Kind::Buffer, "buffer_name");
  if (what == "tensor_constant")
    return add(InputSpec::Kind::TensorConstant, "tensor_constant_name");
  if (what == "user_input")
    return readUserInput(content["arg"], inputs);
  if (what == "constant_input")
    return Error::success();
  return makeError("input '" + text(content["arg"]["name"]) +
                   "' is of the kind '" + what + "', which is not supported");
}

static Error readOutputSpec(const Json &spec,
                            std::vector<OutputSpec> &outputs) {
  Expected<const JsonMember *> kind = only(spec, "output");
  if (!kind)
    return kind.takeError();
  StringRef what = (*kind)->name;
  const Json &content = (*kind)->value;
  StringRef value = text(content["arg"]["name"]);
  if (what == "user_output")
    return Error::success();
  if (value.empty())
    return makeError("the signature has an output of the kind '" + what +
                     "' without a value");
  if (what == "loss_output")
    outputs.push_back({OutputSpec::Kind::Loss, value, ""});
  else if (what == "gradient_to_parameter")
    outputs.push_back(
        {OutputSpec::Kind::Gradient, value, text(content["parameter_name"])});
  else if (what == "buffer_mutation")
    outputs.push_back({OutputSpec::Kind::BufferMutation, value,
                       text(content["buffer_name"])});
  else
    return makeError("output '" + value + "' is of the kind '" + what +
                     "', which is not supported");
  return Error::success();
}

static Error readSignature(const Json &signature, Program &program) {
  for (const Json &spec : signature["input_specs"].elements())
    if (Error error = readInputSpec(spec, program.inputs))
      return error;
  for (const Json &spec : signature["output_specs"].elements())
    if (Error error = readOutputSpec(spec, program.outputs))
      return error;
  size_t losses = count_if(program.outputs, [](const OutputSpec &output) {
    return output.kind == OutputSpec::Kind::Loss;
  });
  if (losses == 0)
    return makeError("the model has no loss output: it is no training step; "
                     "write the archive with fcdp.export");
  if (losses > 1)
    return makeError("expected one loss output, got " + Twine(losses));

  llvm::DenseSet<StringRef> inputs, tensors;
  for (const InputSpec &input : program.inputs) {
    bool isUserInput = input.kind == InputSpec::Kind::UserInput;
    if (!(isUserInput ? inputs : tensors).insert(input.name).second)
      return makeError("the signature names '" + input.name + "' twice");
  }
  return Error::success();
}

static Error readNode(const Json &json, std::vector<Node> &nodes) {
  Node &node = nodes.emplace_back();
  node.target = text(json["target"]);
  node.name = text(json["name"]);
  node.inputs = json["inputs"].elements();
  node.outputs = json["outputs"].elements();
  node.label = text(json["metadata"]["custom"]);
  if (node.target.empty())
    return makeError("node " + Twine(nodes.size() - 1) + " has no target");
  // Older writers omit the name.
  if (node.name.empty() && !node.outputs.empty())
    node.name = text(node.outputs.front()["as_tensor"]["name"]);
  if (node.name.empty())
    node.name = node.target;
  return Error::success();
}

/// Checks the device of a value. A step on CUDA may have a few values on the
/// CPU.
static Error readDevice(const JsonMember &tensor, Program &program) {
  StringRef device = tensor.value["device"]["type"].asString().value_or("cpu");
  if (device == "cuda")
    program.device = Target::cuda;
  else if (device != "cpu" && device != "meta")
    return makeError("value '" + tensor.name + "' is on the device '" + device +
                     "': export the model on a CPU or a CUDA device");
  return Error::success();
}

Expected<Program> fcdp::pt2::readProgram(const Json &model) {
  const Json &major = model["schema_version"]["major"];
  if (major.asInteger() != kSchemaMajor)
    return makeError(
        "expected a model of schema version " + Twine(kSchemaMajor) + ", got " +
        (major.asInteger() ? Twine(*major.asInteger()) : Twine("none")));
  const Json &module = model["graph_module"];
  const Json &graph = module["graph"];
  if (!graph["nodes"].isArray() || !graph["tensor_values"].isObject() ||
      !module["signature"].isObject())
    return makeError("the model has no graph");

  Program program;
  if (Error error = readSignature(module["signature"], program))
    return error;
  for (const JsonMember &member : graph["tensor_values"].members()) {
    program.tensors.insert({member.name, &member.value});
    if (Error error = readDevice(member, program))
      return error;
  }
  for (const JsonMember &member : graph["sym_int_values"].members())
    if (auto integer = member.value["as_int"].asInteger())
      program.integers.insert({member.name, *integer});
  program.nodes.reserve(graph["nodes"].elements().size());
  for (const Json &node : graph["nodes"].elements())
    if (Error error = readNode(node, program.nodes))
      return error;
  return program;
}
