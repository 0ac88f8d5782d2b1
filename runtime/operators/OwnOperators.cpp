// SPDX-License-Identifier: Apache-2.0
#include "operators/OwnOperators.h"

#include "operators/ChunkedLoss.h"
#include "operators/PackedAttention.h"
#include "operators/UnpackedMatrix.h"

#include <map>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

namespace fcdp {

namespace {

/// Arguments and results are in the order of the schemas below.
void runPackedAttention(torch::jit::Stack &stack, Backend &) {
  PackedAttention attention{stack.at(0).toTensor(),
                            stack.at(1).toTensor(),
                            stack.at(2).toTensor(),
                            stack.at(3).toTensor(),
                            stack.at(4).toOptional<at::Tensor>(),
                            stack.at(5).toOptional<double>()};
  auto [out, logSumExp] = attention.forward();
  stack = {std::move(out), std::move(logSumExp)};
}

void runPackedAttentionBackward(torch::jit::Stack &stack, Backend &) {
  PackedAttention attention{stack.at(1).toTensor(),
                            stack.at(2).toTensor(),
                            stack.at(3).toTensor(),
                            stack.at(6).toTensor(),
                            stack.at(7).toOptional<at::Tensor>(),
                            stack.at(8).toOptional<double>()};
  auto [query, key, value] = attention.backward(
      stack.at(0).toTensor(), stack.at(4).toTensor(), stack.at(5).toTensor());
  stack = {std::move(query), std::move(key), std::move(value)};
}

/// Reads the arguments that both operators of losses have. The ones
/// that are no tensors begin at `others`.
ChunkedLoss readLoss(const torch::jit::Stack &stack, size_t others) {
  ChunkedLoss loss;
  loss.hidden = stack.at(0).toTensor();
  loss.weight = stack.at(1).toTensor();
  loss.bias = stack.at(2).toOptional<at::Tensor>();
  loss.labels = stack.at(3).toOptional<at::Tensor>().value_or(at::Tensor());
  loss.gradient = stack.at(4).toOptional<at::Tensor>();
  loss.sumGradient = stack.at(5).toOptional<at::Tensor>();
  auto at = [&](size_t i) -> const c10::IValue & {
    return stack.at(others + i);
  };
  loss.rows = at(0).toInt();
  loss.steps = at(1).toStringRef();
  loss.factors = at(2).toDoubleVector();
  loss.reduction = at(3).toInt();
  loss.ignoreIndex = at(4).toOptional<int64_t>();
  loss.sums = at(5).toBool();
  auto mask = at(6).toBoolList();
  if (mask.size() != 3)
    throw std::runtime_error("expected 3 elements of output_mask, got " +
                             std::to_string(mask.size()));
  loss.trainsHidden = mask.get(0);
  loss.trainsWeight = mask.get(1);
  loss.trainsBias = mask.get(2);
  loss.workspaceBytes = at(7).toInt();
  return loss;
}

torch::jit::Stack makeStack(ChunkedLoss::Results results) {
  return {std::move(results.loss),     std::move(results.totalWeight),
          std::move(results.rowSums),  std::move(results.hidden),
          std::move(results.weight),   std::move(results.bias),
          std::move(results.workspace)};
}

void runChunkedLoss(torch::jit::Stack &stack, Backend &) {
  ChunkedLoss loss = readLoss(stack, 6);
  loss.block = stack.at(14).toInt();
  stack = makeStack(loss.run());
}

void runChunkedDistillation(torch::jit::Stack &stack, Backend &) {
  ChunkedLoss loss = readLoss(stack, 10);
  ChunkedLoss::Teacher &teacher = loss.teacher.emplace();
  teacher.logits = stack.at(6).toTensor();
  teacher.weight = stack.at(7).toOptional<at::Tensor>();
  teacher.bias = stack.at(8).toOptional<at::Tensor>();
  teacher.gradient = stack.at(9).toOptional<at::Tensor>();
  teacher.common = stack.at(18).toInt();
  teacher.studentSteps = stack.at(19).toStringRef();
  teacher.studentFactors = stack.at(20).toDoubleVector();
  teacher.steps = stack.at(21).toStringRef();
  teacher.factors = stack.at(22).toDoubleVector();
  teacher.terms = stack.at(23).toStringRef();
  teacher.skipsInfinite = stack.at(24).toBool();
  teacher.byRow = stack.at(25).toBool();
  ChunkedLoss::Results results = loss.run();
  at::Tensor divergence = std::move(results.divergence);
  stack = makeStack(std::move(results));
  stack.emplace_back(std::move(divergence));
}

void runUnpack(torch::jit::Stack &stack, Backend &backend, bool isNf4) {
  stack = {unpackMatrix(stack.at(0).toTensor(), stack.at(1).toIntVector(),
                        stack.at(2).toScalarType(), isNf4, backend)};
}

void runUnpackNf4(torch::jit::Stack &stack, Backend &backend) {
  runUnpack(stack, backend, /*isNf4=*/true);
}

void runUnpackInt8(torch::jit::Stack &stack, Backend &backend) {
  runUnpack(stack, backend, /*isNf4=*/false);
}

/// The schemas of attention are those of python/fcdp/packed.py.
std::map<std::string, OwnOperator> makeOperators() {
  std::map<std::string, OwnOperator> operators;
  auto add = [&](const char *schema,
                 void (*run)(torch::jit::Stack &, Backend &)) {
    c10::FunctionSchema parsed = torch::jit::parseSchema(schema);
    std::string name = parsed.name();
    operators.emplace(std::move(name), OwnOperator{std::move(parsed), run});
  };
  add("fcdp::packed_attention(Tensor query, Tensor key, Tensor value, Tensor "
      "documents, Tensor? positions=None, *, float? scale=None) -> (Tensor "
      "output, Tensor logsumexp)",
      runPackedAttention);
  add("fcdp::packed_attention_backward(Tensor grad_out, Tensor query, Tensor "
      "key, Tensor value, Tensor out, Tensor logsumexp, Tensor documents, "
      "Tensor? positions=None, *, float? scale=None) -> (Tensor grad_query, "
      "Tensor grad_key, Tensor grad_value)",
      runPackedAttentionBackward);
  add("fcdp::chunked_loss(Tensor hidden, Tensor weight, Tensor? bias, Tensor "
      "labels, Tensor? gradient=None, Tensor? sum_gradient=None, *, int rows, "
      "str steps='', float[] factors=[], int reduction, int? ignore_index, "
      "bool "
      "sums=False, bool[3] output_mask, int workspace, int block=0) -> (Tensor "
      "loss, Tensor total_weight, Tensor row_sums, Tensor grad_hidden, Tensor "
      "grad_weight, "
      "Tensor grad_bias, Tensor workspace)",
      runChunkedLoss);
  add("fcdp::chunked_distillation(Tensor hidden, Tensor weight, Tensor? bias, "
      "Tensor? labels, Tensor? gradient, Tensor? sum_gradient, Tensor teacher, "
      "Tensor? teacher_weight, Tensor? teacher_bias, Tensor? teacher_gradient, "
      "*, int rows, str steps, float[] factors, int reduction, int? "
      "ignore_index, bool sums, bool[3] output_mask, int workspace, int "
      "common, str student_steps, float[] student_factors, str teacher_steps, "
      "float[] teacher_factors, str terms, bool skip_infinite, bool by_row) -> "
      "(Tensor loss, Tensor total_weight, Tensor row_sums, Tensor grad_hidden, "
      "Tensor grad_weight, Tensor grad_bias, Tensor workspace, Tensor "
      "divergence)",
      runChunkedDistillation);
  add("fcdp::unpack_nf4(Tensor packed, *, int[] size, ScalarType dtype) -> "
      "Tensor",
      runUnpackNf4);
  add("fcdp::unpack_int8(Tensor packed, *, int[] size, ScalarType dtype) -> "
      "Tensor",
      runUnpackInt8);
  return operators;
}

} // namespace

const OwnOperator *findOwnOperator(const std::string &name,
                                   const std::string &overload) {
  static const std::map<std::string, OwnOperator> operators = makeOperators();
  auto found = operators.find(name);
  return found == operators.end() || !overload.empty() ? nullptr
                                                       : &found->second;
}

} // namespace fcdp
