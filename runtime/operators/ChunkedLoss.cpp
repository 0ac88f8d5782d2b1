// SPDX-License-Identifier: Apache-2.0
#include "operators/ChunkedLoss.h"

#include "operators/ChunkedLossImpl.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh_backward.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace fcdp {

namespace chunked {

void fail(const std::string &expected, const std::string &got) {
  throw std::runtime_error("expected " + expected + ", got " + got);
}

std::string spellTensor(const at::Tensor &tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

LogitSteps readSteps(const std::string &text,
                     const std::vector<double> &factors) {
  LogitSteps steps;
  size_t nextFactor = 0;
  auto takeFactor = [&] {
    if (nextFactor == factors.size())
      fail("a factor for each 'div' and 'mul'", std::to_string(factors.size()));
    return factors[nextFactor++];
  };
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (word == "div")
      steps.push_back({LogitKind::Divide, takeFactor()});
    else if (word == "mul")
      steps.push_back({LogitKind::Multiply, takeFactor()});
    else if (word == "tanh")
      steps.push_back({LogitKind::Tanh});
    else if (word == "cast")
      steps.push_back({LogitKind::Cast});
    else
      fail("steps 'div', 'mul', 'tanh' or 'cast'", "'" + word + "'");
  }
  for (LogitKind once : {LogitKind::Tanh, LogitKind::Cast})
    if (std::count_if(steps.begin(), steps.end(), [&](const LogitStep &step) {
          return step.kind == once;
        }) > 1)
      fail("at most one 'tanh' and one 'cast'", "'" + text + "'");
  return steps;
}

bool has(const LogitSteps &steps, LogitKind kind) {
  return std::any_of(steps.begin(), steps.end(),
                     [&](const LogitStep &step) { return step.kind == kind; });
}

namespace {

/// The class of a row without a label, in rows of one log-probability.
constexpr int64_t kNoClass = -100;

const ChunkedLoss &checkMatrices(const ChunkedLoss &given) {
  const at::Tensor &hidden = given.hidden, &weight = given.weight;
  if (hidden.dim() != 2 || !at::isFloatingType(hidden.scalar_type()))
    fail("hidden states [rows, features] of floats", spellTensor(hidden));
  if (weight.dim() != 2 || weight.size(1) != hidden.size(1) ||
      weight.scalar_type() != hidden.scalar_type())
    fail("a weight [vocabulary, features] for hidden states " +
             spellTensor(hidden),
         spellTensor(weight));
  if (!given.teacher)
    return given;
  const at::Tensor &logits = given.teacher->logits;
  if (logits.dim() != 2 || logits.size(0) != hidden.size(0) ||
      !at::isFloatingType(logits.scalar_type()))
    fail("a row of a teacher's floats for hidden states " + spellTensor(hidden),
         spellTensor(logits));
  const int64_t vocabulary = weight.size(0);
  if (given.teacher->weight) {
    const at::Tensor &of = *given.teacher->weight;
    if (of.dim() != 2 || of.size(0) != vocabulary ||
        of.size(1) != logits.size(1) ||
        of.scalar_type() != logits.scalar_type())
      fail("a teacher's weight of " + std::to_string(vocabulary) +
               " classes for hidden states " + spellTensor(logits),
           spellTensor(of));
  } else if (logits.size(1) != vocabulary) {
    fail("a teacher's logits of " + std::to_string(vocabulary) + " classes",
         spellTensor(logits));
  }
  return given;
}

} // namespace

LossShape Chunks::shape() const {
  LossShape shape;
  shape.rows = rows;
  shape.chunk = given.rows;
  shape.hidden = given.hidden.size(1);
  shape.vocabulary = vocabulary;
  shape.modelBytes = static_cast<int64_t>(c10::elementSize(modelType));
  shape.block = given.block;
  shape.isCast = has(steps, LogitKind::Cast);
  shape.hasTanh = has(steps, LogitKind::Tanh);
  shape.trainsHidden = given.trainsHidden;
  shape.trainsWeight = given.trainsWeight;
  shape.trainsBias = given.trainsBias;
  if (!given.teacher)
    return shape;
  LossShape::Teacher &teacher = shape.teacher;
  teacher.exists = true;
  teacher.hasLabels = hasLabels();
  teacher.hidden = given.teacher->weight ? given.teacher->logits.size(1) : 0;
  teacher.modelBytes = static_cast<int64_t>(
      c10::elementSize(given.teacher->logits.scalar_type()));
  teacher.isCast = has(parts.teacher, LogitKind::Cast);
  teacher.hasTanh = has(parts.teacher, LogitKind::Tanh);
  teacher.isCommonCast = has(parts.common, LogitKind::Cast);
  teacher.isStudentCast = has(parts.student, LogitKind::Cast);
  teacher.hasStudentTanh = has(parts.student, LogitKind::Tanh);
  teacher.skipsInfinite = given.teacher->skipsInfinite;
  return shape;
}

Chunks::Chunks(const ChunkedLoss &arguments)
    : given(checkMatrices(arguments)),
      steps(readSteps(given.steps, given.factors)),
      parts(readTeacher(given, steps)), rows(given.hidden.size(0)),
      vocabulary(given.weight.size(0)), modelType(given.hidden.scalar_type()),
      lossType(has(steps, LogitKind::Cast) ? at::kFloat : modelType),
      studentType(has(parts.common, LogitKind::Cast) ||
                          has(parts.student, LogitKind::Cast)
                      ? at::kFloat
                      : modelType),
      sumType(c10::elementSize(modelType) < 4 ? at::kFloat : modelType),
      hasGradient(given.trainsHidden || given.trainsWeight || given.trainsBias),
      layout(shape()),
      memory{layout.tanh, layout.logProbabilities, layout.logits} {
  check();
}

void Chunks::check() const {
  if (given.rows != rows && (given.rows < 1 || given.rows > rows ||
                             given.rows % kLossRowMultiple != 0))
    fail("chunks of a multiple of " + std::to_string(kLossRowMultiple) +
             " rows, or of all " + std::to_string(rows),
         std::to_string(given.rows));
  if (given.block < 0 || given.block > shape().getLargestBlock())
    fail("a block of at most " + std::to_string(shape().getLargestBlock()) +
             " classes",
         std::to_string(given.block));
  if (hasLabels())
    checkLabels();
  else if (!given.teacher || given.sums || given.sumGradient)
    fail("labels", "none");
  if (given.teacher)
    checkTeacher();
  if (given.bias &&
      (given.bias->dim() != 1 || given.bias->size(0) != vocabulary ||
       given.bias->scalar_type() != modelType))
    fail("a bias for the weight " + spellTensor(given.weight),
         spellTensor(*given.bias));
  if (given.trainsBias && !given.bias)
    fail("a bias, whose gradient is asked for", "none");
  if (given.workspaceBytes < layout.bytes)
    fail("a workspace of at least " + std::to_string(layout.bytes) + " bytes",
         std::to_string(given.workspaceBytes));
}

void Chunks::checkLabels() const {
  if (given.labels.dim() != 1 || given.labels.size(0) != rows ||
      given.labels.scalar_type() != at::kLong)
    fail("a label of type i64 for each of " + std::to_string(rows) + " rows",
         spellTensor(given.labels));
  if (given.reduction < 0 || given.reduction > 2)
    fail("the reduction 0, 1 or 2", std::to_string(given.reduction));
  if (!given.ignoreIndex && given.reduction != 0)
    fail("a label to ignore", "none");
  if (hasGradient && !given.gradient)
    fail("the gradient of the loss", "none");
  if (given.gradient)
    checkGradient(*given.gradient, lossType, given.reduction == 0);
  if (given.sumGradient)
    checkGradient(*given.sumGradient, lossType, true);
}

void Chunks::checkGradient(const at::Tensor &tensor, at::ScalarType type,
                           bool isByRow) const {
  bool fits = isByRow ? tensor.dim() == 1 && tensor.size(0) == rows
                      : tensor.numel() == 1;
  if (!fits || tensor.scalar_type() != type)
    fail(std::string("gradients of the loss as ") +
             (isByRow ? "one number for each row" : "one number"),
         spellTensor(tensor));
}

at::Tensor Chunks::part(int64_t offset, at::IntArrayRef sizes,
                        at::ScalarType type) const {
  return at::from_blob(
      static_cast<std::byte *>(results.workspace.data_ptr()) + offset, sizes,
      at::TensorOptions().dtype(type).device(results.workspace.device()));
}

ChunkedLoss::Results Chunks::run() {
  auto make = [&](bool isMade, at::IntArrayRef sizes, at::ScalarType type) {
    return isMade ? at::empty(sizes, given.hidden.options().dtype(type))
                  : at::Tensor();
  };
  const bool isByRow = given.reduction == 0;
  results.loss = isByRow ? make(hasLabels(), {rows}, lossType)
                         : make(hasLabels(), {}, lossType);
  results.totalWeight = make(hasLabels(), {}, lossType);
  results.rowSums = make(given.sums, {rows}, lossType);
  results.hidden = make(given.trainsHidden, given.hidden.sizes(), modelType);
  results.weight = make(given.trainsWeight, given.weight.sizes(), modelType);
  results.bias = make(given.trainsBias, {1, vocabulary}, modelType);
  results.workspace = make(true, {given.workspaceBytes}, at::kByte);
  if (given.teacher)
    results.divergence = given.teacher->byRow ? make(true, {rows}, studentType)
                                              : make(true, {}, studentType);
  if (given.teacher && !given.teacher->byRow && given.hidden.is_cpu())
    divergence.emplace(rows * vocabulary, studentType);
  if (hasLabels()) {
    readLabels();
    // This sets the weight of all labels, which gradients need.
    rowLogProbs.zero_();
    reduceRows();
  }
  // Chunks are of almost equal length, so that none is small.
  const int64_t blocks = (rows + kLossRowMultiple - 1) / kLossRowMultiple,
                chunks = (rows + given.rows - 1) / given.rows;
  auto begin = [&](int64_t chunk) {
    return std::min(chunk * blocks / chunks * kLossRowMultiple, rows);
  };
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    if (given.teacher)
      runTeacherChunk(begin(chunk), begin(chunk + 1) - begin(chunk));
    else
      runChunk(begin(chunk), begin(chunk + 1));
  if (hasLabels())
    reduceRows();
  finishDivergence();
  for (int64_t first = 0; given.block != 0 && first < vocabulary;
       first += given.block)
    computeBlock(first, std::min(given.block, vocabulary - first));
  if (given.trainsWeight && sumType != modelType && given.block == 0)
    results.weight.copy_(weightSum());
  if (given.trainsBias && sumType != modelType)
    results.bias.copy_(part(layout.biasSum, {1, vocabulary}, sumType));
  return std::move(results);
}

void Chunks::readLabels() {
  isIgnored = part(layout.isIgnored, {rows}, at::kBool);
  classes = part(layout.classes, {rows}, at::kLong);
  rowClasses = part(layout.rowClasses, {rows}, at::kLong);
  rowLogProbs = part(layout.rowLogProbabilities, {rows, 1}, lossType);
  const int64_t first = 0, none = kNoClass;
  if (given.ignoreIndex)
    at::eq_out(isIgnored, given.labels, wrap(*given.ignoreIndex));
  else
    isIgnored.zero_();
  classes.copy_(given.labels).masked_fill_(isIgnored, wrap(first));
  rowClasses.zero_().masked_fill_(isIgnored, wrap(none));
}

/// Computes the loss from one log-probability for each row, in the order in
/// which the whole is summed.
void Chunks::reduceRows() {
  at::nll_loss_forward_out(results.loss, results.totalWeight, rowLogProbs,
                           rowClasses, {}, given.reduction, kNoClass);
}

void Chunks::runChunk(int64_t begin, int64_t end) {
  const int64_t count = end - begin;
  at::Tensor logProbs = forward(begin, count);
  readLogProbs(begin, logProbs);
  if (hasGradient)
    multiplyGradient(
        begin, reverseSteps(backward(begin, count, logProbs), steps, memory));
}

/// Takes what the loss is computed from.
void Chunks::readLogProbs(int64_t begin, const at::Tensor &logProbs) {
  const int64_t count = logProbs.size(0);
  at::Tensor picked = rowLogProbs.narrow(0, begin, count);
  at::gather_out(picked, logProbs, 1,
                 classes.narrow(0, begin, count).unsqueeze(1));
  if (given.sums) {
    at::Tensor sums = results.rowSums.narrow(0, begin, count);
    at::sum_out(sums, logProbs, 1);
  }
}

/// Computes gradients from that of the product's result.
void Chunks::multiplyGradient(int64_t begin, const at::Tensor &gradient) {
  const int64_t count = gradient.size(0);
  at::Tensor hidden = given.hidden.narrow(0, begin, count);
  if (given.trainsHidden) {
    at::Tensor of = results.hidden.narrow(0, begin, count);
    at::mm_out(of, gradient, given.weight);
  }
  if (given.trainsWeight && given.block == 0)
    addToWeight(weightSum(), gradient, hidden, begin == 0);
  if (given.trainsBias)
    addToBias(gradient, begin == 0);
}

/// Returns the product of the rows with the weight of the classes from `first`
/// on.
at::Tensor Chunks::product(int64_t begin, int64_t count, int64_t first,
                           int64_t classCount) {
  at::Tensor hidden = given.hidden.narrow(0, begin, count),
             weight = given.weight.narrow(0, first, classCount).t();
  at::Tensor logits = part(layout.logits, {count, classCount}, modelType);
  if (given.bias)
    at::addmm_out(logits, given.bias->narrow(0, first, classCount), hidden,
                  weight);
  else
    at::mm_out(logits, hidden, weight);
  return logits;
}

/// Returns the logits after the steps, for the log-softmax.
at::Tensor Chunks::applySteps(at::Tensor logits, const LogitSteps &applied,
                              const StepMemory &of) {
  for (const LogitStep &step : applied)
    switch (step.kind) {
    case LogitKind::Divide:
      logits.div_(wrap(step.factor));
      break;
    case LogitKind::Multiply:
      logits.mul_(wrap(step.factor));
      break;
    case LogitKind::Tanh:
      logits.tanh_();
      part(of.tanh, logits.sizes(), logits.scalar_type()).copy_(logits);
      break;
    case LogitKind::Cast:
      logits = part(of.wide, logits.sizes(), at::kFloat).copy_(logits);
      break;
    }
  return logits;
}

/// Returns the log-probabilities of the rows.
at::Tensor Chunks::forward(int64_t begin, int64_t count) {
  at::Tensor logits =
      applySteps(product(begin, count, 0, vocabulary), steps, memory);
  if (given.block == 0) {
    // Each row is read as a whole before it is written.
    at::_log_softmax_out(logits, logits, 1, false);
    return logits;
  }
  // The greatest log-probability has the fewest digits before the point.
  at::Tensor sum = rowPart(layout.rowLogSumExp, begin, count),
             greatest = rowPart(layout.rowTotal, begin, count);
  at::amax_out(sum, logits, 1);
  at::_log_softmax_out(logits, logits, 1, false);
  at::amax_out(greatest, logits, 1);
  sum.sub_(greatest);
  return logits;
}

/// Returns the gradient of the log-softmax's input.
at::Tensor Chunks::backward(int64_t begin, int64_t count,
                            const at::Tensor &logProbs) {
  at::Tensor gradient = part(layout.gradient, logProbs.sizes(), lossType);
  at::Tensor ofLoss = given.reduction == 0
                          ? given.gradient->narrow(0, begin, count)
                          : *given.gradient;
  at::nll_loss_backward_out(
      gradient, ofLoss, logProbs, given.labels.narrow(0, begin, count), {},
      given.reduction, given.ignoreIndex.value_or(kNoClass),
      results.totalWeight);
  if (given.block != 0)
    keepRows(begin, gradient);
  if (given.sumGradient)
    gradient.add_(given.sumGradient->narrow(0, begin, count).unsqueeze(1));
  at::_log_softmax_backward_data_out(gradient, gradient, logProbs, 1, lossType);
  return gradient;
}

at::Tensor Chunks::reverseSteps(at::Tensor gradient, const LogitSteps &applied,
                                const StepMemory &of) {
  for (auto step = applied.rbegin(); step != applied.rend(); ++step)
    switch (step->kind) {
    case LogitKind::Divide:
      gradient.div_(wrap(step->factor));
      break;
    case LogitKind::Multiply:
      gradient.mul_(wrap(step->factor));
      break;
    case LogitKind::Tanh:
      at::tanh_backward_out(
          gradient, gradient,
          part(of.tanh, gradient.sizes(), gradient.scalar_type()));
      break;
    case LogitKind::Cast:
      gradient = part(of.narrow, gradient.sizes(), modelType).copy_(gradient);
      break;
    }
  return gradient;
}

at::Tensor Chunks::rowPart(int64_t offset, int64_t begin, int64_t count) const {
  return part(offset, {rows}, at::kFloat).narrow(0, begin, count);
}

/// Keeps the gradient of each row's log-probability, and what the row's
/// gradients of all log-probabilities add up to, with the opposite sign.
void Chunks::keepRows(int64_t begin, const at::Tensor &gradient) {
  const int64_t count = gradient.size(0);
  at::Tensor ofLabel = rowPart(layout.rowGradient, begin, count),
             total = rowPart(layout.rowTotal, begin, count);
  at::Tensor column = ofLabel.unsqueeze(1);
  at::gather_out(column, gradient, 1,
                 classes.narrow(0, begin, count).unsqueeze(1));
  total.copy_(ofLabel);
  if (given.sumGradient)
    total.add_(given.sumGradient->narrow(0, begin, count), vocabulary);
  total.neg_();
}

/// Computes the gradients of the weights of some classes, from all rows. Their
/// logits are computed again.
void Chunks::computeBlock(int64_t first, int64_t classCount) {
  at::Tensor gradient =
      applySteps(product(0, rows, first, classCount), steps, memory);
  gradient.sub_(rowPart(layout.rowLogSumExp, 0, rows).unsqueeze(1))
      .exp_()
      .mul_(rowPart(layout.rowTotal, 0, rows).unsqueeze(1));
  if (given.sumGradient)
    gradient.add_(given.sumGradient->unsqueeze(1));
  // Labels of other blocks have no gradient here.
  at::Tensor label = part(layout.blockClasses, {rows}, at::kLong),
             nearest = part(layout.nearestClasses, {rows}, at::kLong),
             isOutside = part(layout.isOutside, {rows}, at::kBool),
             ofLabel = part(layout.blockGradient, {rows}, at::kFloat);
  const float zero = 0;
  label.copy_(classes).sub_(wrap(first));
  nearest.copy_(label).clamp_(0, classCount - 1);
  at::ne_out(isOutside, label, nearest);
  ofLabel.copy_(rowPart(layout.rowGradient, 0, rows))
      .masked_fill_(isOutside, wrap(zero));
  gradient.scatter_add_(1, nearest.unsqueeze(1), ofLabel.unsqueeze(1));
  at::Tensor of = results.weight.narrow(0, first, classCount);
  at::mm_out(of, reverseSteps(gradient, steps, memory).t(), given.hidden);
}

/// Returns where the gradient of the weight is summed over chunks.
at::Tensor Chunks::weightSum() const {
  return sumType == modelType
             ? results.weight
             : part(layout.weightSum, given.weight.sizes(), sumType);
}

void Chunks::addToWeight(at::Tensor sum, const at::Tensor &gradient,
                         const at::Tensor &hidden, bool isFirst) {
  at::Tensor left = gradient, right = hidden;
  if (sumType != modelType) {
    left = part(layout.wideGradient, gradient.sizes(), sumType).copy_(gradient);
    right = part(layout.wideHidden, hidden.sizes(), sumType).copy_(hidden);
  }
  if (isFirst)
    at::mm_out(sum, left.t(), right);
  else
    sum.addmm_(left.t(), right);
}

void Chunks::addToBias(const at::Tensor &gradient, bool isFirst) {
  at::Tensor sum = sumType == modelType
                       ? results.bias
                       : part(layout.biasSum, {1, vocabulary}, sumType);
  at::Tensor ofChunk =
      isFirst ? sum : part(layout.biasOfChunk, {1, vocabulary}, sumType);
  at::sum_out(ofChunk, gradient, 0, /*keepdim=*/true, sumType);
  if (!isFirst)
    sum.add_(ofChunk);
}

} // namespace chunked

ChunkedLoss::Results ChunkedLoss::run() const {
  return chunked::Chunks(*this).run();
}

} // namespace fcdp
