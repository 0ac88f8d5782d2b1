// SPDX-License-Identifier: Apache-2.0
#include "operators/PackedAttention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace fcdp {

namespace {

/// Tokens [begin, end) of a row.
struct Span {
  enum class Kind {
    /// A document.
    Document,
    /// Documents of one token each, which see themselves alone.
    Single,
    /// A row whose tokens do not see what is before them in a document.
    Masked
  } kind;
  int64_t row, begin, end;

  at::Tensor of(const at::Tensor &tensor) const {
    return tensor.narrow(0, row, 1).narrow(2, begin, end - begin);
  }
};

/// The integers of all rows, one row after another.
class Rows {
public:
  explicit Rows(const at::Tensor &tensor)
      : whole(tensor.to(at::kLong).contiguous()), tokens(whole.size(1)) {}
  const int64_t *row(int64_t index) const {
    return whole.const_data_ptr<int64_t>() + index * tokens;
  }

private:
  at::Tensor whole;
  int64_t tokens;
};

std::string sizesOf(const at::Tensor &tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

void check(const PackedAttention &given) {
  const at::Tensor &query = given.query, &key = given.key;
  auto fail = [](const std::string &expected, const at::Tensor &got) {
    throw std::runtime_error("expected " + expected + ", got " + sizesOf(got));
  };
  for (const at::Tensor &tensor : {query, key, given.value})
    if (tensor.dim() != 4 || !tensor.is_cpu() ||
        tensor.scalar_type() != query.scalar_type())
      fail("query, key and value [batch, heads, tokens, depth] of one type on "
           "the CPU",
           tensor);
  if (key.sizes() != given.value.sizes() || key.size(0) != query.size(0) ||
      key.size(1) == 0 || query.size(1) % key.size(1) != 0 ||
      key.size(2) != query.size(2) || key.size(3) != query.size(3))
    fail("key and value to fit the query " + sizesOf(query), key);
  for (const at::Tensor &rows :
       {given.documents, given.positions.value_or(given.documents)})
    if (rows.dim() != 2 || rows.size(0) != query.size(0) ||
        rows.size(1) != query.size(2) ||
        !at::isIntegralType(rows.scalar_type(), /*includeBool=*/false))
      fail("documents and positions to be integers [batch, tokens] of the "
           "query " +
               sizesOf(query),
           rows);
}

/// Returns the first tokens of the documents of a row, and `tokens` as the
/// last; or nothing if tokens of a document are apart, or its positions do not
/// grow.
std::vector<int64_t> findStarts(const int64_t *documents,
                                const int64_t *positions, int64_t tokens) {
  std::vector<int64_t> starts, names;
  for (int64_t i = 0; i < tokens; ++i) {
    if (i == 0 || documents[i] != documents[i - 1]) {
      starts.push_back(i);
      names.push_back(documents[i]);
    } else if (positions && positions[i] <= positions[i - 1]) {
      return {};
    }
  }
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end())
    return {};
  starts.push_back(tokens);
  return starts;
}

std::vector<Span> findSpans(const PackedAttention &given) {
  const Rows documents(given.documents);
  std::optional<Rows> positions;
  if (given.positions)
    positions.emplace(*given.positions);
  const int64_t batch = given.query.size(0), tokens = given.query.size(2);
  std::vector<Span> spans;
  for (int64_t row = 0; row < batch; ++row) {
    std::vector<int64_t> starts = findStarts(
        documents.row(row), positions ? positions->row(row) : nullptr, tokens);
    if (starts.empty())
      spans.push_back({Span::Kind::Masked, row, 0, tokens});
    for (size_t i = 0; i + 1 < starts.size(); ++i) {
      const int64_t begin = starts[i], end = starts[i + 1];
      const auto kind =
          end - begin == 1 ? Span::Kind::Single : Span::Kind::Document;
      if (kind == Span::Kind::Single && !spans.empty() &&
          spans.back().kind == kind && spans.back().row == row)
        spans.back().end = end;
      else
        spans.push_back({kind, row, begin, end});
    }
  }
  return spans;
}

/// Returns what is added to the scores of a row [1, 1, tokens, tokens].
at::Tensor makeMask(const PackedAttention &given, int64_t row) {
  const int64_t tokens = given.query.size(2);
  at::Tensor documents = given.documents.select(0, row);
  at::Tensor order = given.positions ? given.positions->select(0, row)
                                     : at::arange(tokens, at::kLong);
  at::Tensor hidden = documents.unsqueeze(1).ne(documents).logical_or_(
      order.unsqueeze(0).gt(order.unsqueeze(1)));
  return at::zeros({1, 1, tokens, tokens}, given.query.options())
      .masked_fill_(hidden, -std::numeric_limits<double>::infinity());
}

/// Returns how attention is called for a span: whether it is causal, and its
/// mask.
std::pair<bool, std::optional<at::Tensor>> callOf(const PackedAttention &given,
                                                  const Span &span) {
  if (span.kind == Span::Kind::Document)
    return {true, std::nullopt};
  return {false, makeMask(given, span.row)};
}

/// [batch, heads, ...] as [batch, heads of keys, heads of each, ...].
at::Tensor grouped(const at::Tensor &tensor, const at::Tensor &key) {
  return tensor.unflatten(1, {key.size(1), tensor.size(1) / key.size(1)});
}

} // namespace

std::tuple<at::Tensor, at::Tensor> PackedAttention::forward() const {
  check(*this);
  // Results first: kernels take memory by the lengths of documents, and the
  // memory of a step is planned from allocations that are the same in each.
  at::Tensor out = at::empty_like(query);
  at::Tensor logSumExp =
      at::empty({query.size(0), query.size(2), query.size(1)},
                query.options().dtype(query.scalar_type() == at::kDouble
                                          ? at::kDouble
                                          : at::kFloat))
          .transpose(1, 2);
  for (const Span &span : findSpans(*this)) {
    if (span.kind == Span::Kind::Single) {
      grouped(span.of(out), key).copy_(span.of(value).unsqueeze(2));
      span.of(logSumExp).zero_();
      continue;
    }
    auto [isCausal, mask] = callOf(*this, span);
    auto [attended, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
        span.of(query), span.of(key), span.of(value), /*dropout_p=*/0, isCausal,
        mask, scale);
    span.of(out).copy_(attended);
    span.of(logSumExp).copy_(sums);
  }
  return {out, logSumExp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
PackedAttention::backward(const at::Tensor &gradient, const at::Tensor &out,
                          const at::Tensor &logSumExp) const {
  check(*this);
  if (gradient.sizes() != query.sizes() || out.sizes() != query.sizes() ||
      logSumExp.sizes() != query.sizes().slice(0, 3))
    throw std::runtime_error("expected a gradient of the query's " +
                             sizesOf(query) + ", got " + sizesOf(gradient));
  // Token by token, as the CPU's attention has its gradients.
  auto empty = [](const at::Tensor &like) {
    return at::empty({like.size(0), like.size(2), like.size(1), like.size(3)},
                     like.options())
        .transpose(1, 2);
  };
  at::Tensor ofQuery = empty(query), ofKey = empty(key), ofValue = empty(value);
  for (const Span &span : findSpans(*this)) {
    if (span.kind == Span::Kind::Single) {
      span.of(ofQuery).zero_();
      span.of(ofKey).zero_();
      span.of(ofValue).copy_(grouped(span.of(gradient), key).sum(2));
      continue;
    }
    auto [isCausal, mask] = callOf(*this, span);
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        span.of(gradient), span.of(query), span.of(key), span.of(value),
        span.of(out), span.of(logSumExp), /*dropout_p=*/0, isCausal, mask,
        scale);
    span.of(ofQuery).copy_(q);
    span.of(ofKey).copy_(k);
    span.of(ofValue).copy_(v);
  }
  return {ofQuery, ofKey, ofValue};
}

} // namespace fcdp
