// SPDX-License-Identifier: Apache-2.0
#include "operators/OwnOperators.h"

#include "operators/PackedAttention.h"

#include <map>
#include <torch/csrc/jit/frontend/function_schema_parser.h>

namespace fcdp {

namespace {

/// Arguments and results are in the order of the schemas below.
void runPackedAttention(torch::jit::Stack &stack) {
  PackedAttention attention{stack.at(0).toTensor(),
                            stack.at(1).toTensor(),
                            stack.at(2).toTensor(),
                            stack.at(3).toTensor(),
                            stack.at(4).toOptional<at::Tensor>(),
                            stack.at(5).toOptional<double>()};
  auto [out, logSumExp] = attention.forward();
  stack = {std::move(out), std::move(logSumExp)};
}

void runPackedAttentionBackward(torch::jit::Stack &stack) {
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

/// The schemas are those of python/fcdp/packed.py.
std::map<std::string, OwnOperator> makeOperators() {
  std::map<std::string, OwnOperator> operators;
  auto add = [&](const char *schema, void (*run)(torch::jit::Stack &)) {
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
