// SPDX-License-Identifier: Apache-2.0
#include "operators/ChunkedLoss.h"

#include "core/LossWorkspace.h"
#include "operators/WholeSum.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/xlogy.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace fcdp {

namespace {

enum class LogitKind { Divide, Multiply, Tanh, Cast };

/// The class of a row without a label, in rows of one log-probability.
constexpr int64_t kNoClass = -100;

/// One of the operations between the product and the log-softmax.
struct LogitStep {
  LogitKind kind;
  double factor = 0;
};

[[noreturn]] void fail(const std::string &expected, const std::string &got) {
  throw std::runtime_error("expected " + expected + ", got " + got);
}

std::string spellTensor(const at::Tensor &tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << ' ' << tensor.sizes();
  return text.str();
}

/// Returns a view of `number` that operators treat as a number, as those of
/// libtorch make it. Theirs would take memory in each call.
template <typename T>
at::Tensor wrap(const T &number) {
  at::Tensor tensor =
      at::from_blob(const_cast<T *>(&number), {},
                    at::TensorOptions().dtype(c10::CppTypeToScalarType<T>()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

using LogitSteps = std::vector<LogitStep>;

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

/// Offsets of what steps need: the result of the tanh, logits after the cast,
/// and their gradient before it.
struct StepMemory {
  int64_t tanh = 0, wide = 0, narrow = 0;
};

/// How a student is compared with its teacher.
enum class Terms { Divergence, LogDivergence, CrossEntropy };

/// The steps of logits that a teacher is part of.
struct TeacherSteps {
  LogitSteps common, labels, student, teacher;
  Terms terms = Terms::Divergence;
  /// Whether the teacher's probabilities are the exponential of a log-softmax.
  bool isExp = false;
};

TeacherSteps readTeacher(const ChunkedLoss &given, const LogitSteps &steps) {
  TeacherSteps read;
  if (!given.teacher)
    return read;
  const ChunkedLoss::Teacher &teacher = *given.teacher;
  if (teacher.common < 0 ||
      teacher.common > static_cast<int64_t>(steps.size()) ||
      (!given.labels.defined() &&
       teacher.common != static_cast<int64_t>(steps.size())))
    fail("common steps of " + std::to_string(steps.size()),
         std::to_string(teacher.common));
  read.common.assign(steps.begin(), steps.begin() + teacher.common);
  read.labels.assign(steps.begin() + teacher.common, steps.end());
  read.student = readSteps(teacher.studentSteps, teacher.studentFactors);
  read.teacher = readSteps(teacher.steps, teacher.factors);
  std::string words = teacher.terms;
  if (size_t at = words.find("_exp"); at != std::string::npos) {
    read.isExp = true;
    words.resize(at);
  }
  if (words == "kl")
    read.terms = Terms::Divergence;
  else if (words == "log" && !read.isExp)
    read.terms = Terms::LogDivergence;
  else if (words == "cross")
    read.terms = Terms::CrossEntropy;
  else
    fail("terms 'kl', 'kl_exp', 'log', 'cross' or 'cross_exp'",
         "'" + teacher.terms + "'");
  for (LogitKind once : {LogitKind::Tanh, LogitKind::Cast})
    if (has(read.common, once) && has(read.student, once))
      fail("at most one 'tanh' and one 'cast'", "two");
  return read;
}

/// Thread-compatible.
class Chunks {
public:
  explicit Chunks(const ChunkedLoss &given);
  ChunkedLoss::Results run();

private:
  void check() const;
  void checkGradient(const at::Tensor &tensor, at::ScalarType type,
                     bool isByRow) const;
  LossShape shape() const;
  at::Tensor part(int64_t offset, at::IntArrayRef sizes,
                  at::ScalarType type) const;
  void checkLabels() const;
  void checkTeacher() const;
  bool hasLabels() const { return given.labels.defined(); }
  void readLabels();
  void reduceRows();
  void runChunk(int64_t begin, int64_t end);
  void runTeacherChunk(int64_t begin, int64_t count);
  at::Tensor compareWithLabels(int64_t begin, int64_t count,
                               const at::Tensor &common);
  at::Tensor compareWithTeacher(int64_t begin, int64_t count,
                                const at::Tensor &common);
  at::Tensor findLogProbs(const at::Tensor &common, const LogitSteps &own,
                          at::ScalarType type, const StepMemory &memory);
  at::Tensor findTarget(int64_t begin, int64_t count);
  void addDivergence(int64_t begin, const at::Tensor &terms);
  void finishDivergence();
  at::Tensor forward(int64_t begin, int64_t count);
  void readLogProbs(int64_t begin, const at::Tensor &logProbs);
  at::Tensor backward(int64_t begin, int64_t count, const at::Tensor &logProbs);
  void multiplyGradient(int64_t begin, const at::Tensor &gradient);
  at::Tensor product(int64_t begin, int64_t count, int64_t first,
                     int64_t classes);
  at::Tensor applySteps(at::Tensor logits, const LogitSteps &applied,
                        const StepMemory &memory);
  at::Tensor reverseSteps(at::Tensor gradient, const LogitSteps &applied,
                          const StepMemory &memory);
  at::Tensor rowPart(int64_t offset, int64_t begin, int64_t count) const;
  void keepRows(int64_t begin, const at::Tensor &gradient);
  void computeBlock(int64_t first, int64_t classes);
  at::Tensor weightSum() const;
  void addToWeight(at::Tensor sum, const at::Tensor &gradient,
                   const at::Tensor &hidden, bool isFirst);
  void addToBias(const at::Tensor &gradient, bool isFirst);

  const ChunkedLoss &given;
  const LogitSteps steps;
  const TeacherSteps parts;
  const int64_t rows, vocabulary;
  const at::ScalarType modelType, lossType, studentType, sumType;
  const bool hasGradient;
  const LossWorkspace layout;
  const StepMemory memory;
  ChunkedLoss::Results results;
  std::optional<WholeSum> divergence;
  at::Tensor isIgnored, classes, rowClasses, rowLogProbs;
};

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

void Chunks::checkTeacher() const {
  const ChunkedLoss::Teacher &teacher = *given.teacher;
  const at::ScalarType type = has(parts.teacher, LogitKind::Cast)
                                  ? at::kFloat
                                  : teacher.logits.scalar_type();
  if (type != studentType)
    fail(std::string("a teacher's logits of ") + c10::toString(studentType),
         c10::toString(type));
  if (teacher.bias &&
      (!teacher.weight || teacher.bias->dim() != 1 ||
       teacher.bias->size(0) != vocabulary ||
       teacher.bias->scalar_type() != teacher.logits.scalar_type()))
    fail("a bias for a teacher's weight", spellTensor(*teacher.bias));
  if (teacher.skipsInfinite && parts.terms != Terms::CrossEntropy)
    fail("infinite logits in a cross entropy alone", "'" + teacher.terms + "'");
  if (hasGradient && !teacher.gradient)
    fail("the gradient of the divergence", "none");
  if (teacher.gradient)
    checkGradient(*teacher.gradient, studentType, teacher.byRow);
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

/// Computes a chunk that is compared with a teacher, and with labels if there
/// are any. Gradients of both are added where their steps begin to differ.
void Chunks::runTeacherChunk(int64_t begin, int64_t count) {
  const StepMemory ofCommon = {layout.tanh, layout.common, layout.logits};
  at::Tensor common =
      applySteps(product(begin, count, 0, vocabulary), parts.common, ofCommon);
  at::Tensor gradient;
  if (hasLabels())
    gradient = compareWithLabels(begin, count, common);
  at::Tensor ofTeacher = compareWithTeacher(begin, count, common);
  if (!hasGradient)
    return;
  if (gradient.defined())
    gradient.add_(ofTeacher);
  else
    gradient = ofTeacher;
  multiplyGradient(begin, reverseSteps(gradient, parts.common, ofCommon));
}

/// Returns log-probabilities after steps that are not common.
at::Tensor Chunks::findLogProbs(const at::Tensor &common, const LogitSteps &own,
                                at::ScalarType type, const StepMemory &of) {
  at::Tensor logProbs = part(of.wide, common.sizes(), type), logits = common;
  if (!own.empty()) {
    logits = common.scalar_type() == type
                 ? logProbs
                 : part(of.narrow, common.sizes(), modelType);
    logits = applySteps(logits.copy_(common), own, of);
  }
  at::_log_softmax_out(logProbs, logits, 1, false);
  return logProbs;
}

at::Tensor Chunks::compareWithLabels(int64_t begin, int64_t count,
                                     const at::Tensor &common) {
  const StepMemory of = {layout.tanh, layout.logProbabilities,
                         layout.labelLogits};
  at::Tensor logProbs = findLogProbs(common, parts.labels, lossType, of);
  readLogProbs(begin, logProbs);
  if (!hasGradient)
    return {};
  return reverseSteps(backward(begin, count, logProbs), parts.labels, of);
}

/// Returns the teacher's probabilities of the rows, or their logarithms.
at::Tensor Chunks::findTarget(int64_t begin, int64_t count) {
  const ChunkedLoss::Teacher &teacher = *given.teacher;
  at::Tensor rowsOf = teacher.logits.narrow(0, begin, count), logits = rowsOf,
             target = part(layout.target, {count, vocabulary}, studentType);
  if (teacher.weight || !parts.teacher.empty())
    logits =
        part(layout.teacherLogits, {count, vocabulary}, rowsOf.scalar_type());
  if (teacher.bias)
    at::addmm_out(logits, *teacher.bias, rowsOf, teacher.weight->t());
  else if (teacher.weight)
    at::mm_out(logits, rowsOf, teacher.weight->t());
  else if (!parts.teacher.empty())
    logits.copy_(rowsOf);
  logits =
      applySteps(logits, parts.teacher, {layout.teacherTanh, layout.target, 0});
  if (parts.isExp || parts.terms == Terms::LogDivergence)
    at::_log_softmax_out(target, logits, 1, false);
  else
    at::_softmax_out(target, logits, 1, false);
  return parts.isExp ? target.exp_() : target;
}

at::Tensor Chunks::compareWithTeacher(int64_t begin, int64_t count,
                                      const at::Tensor &common) {
  const ChunkedLoss::Teacher &teacher = *given.teacher;
  at::Tensor terms = part(layout.studentGradient, common.sizes(), studentType),
             other = part(layout.terms, common.sizes(), studentType),
             isInfinite;
  if (teacher.skipsInfinite) {
    const double infinity = std::numeric_limits<double>::infinity();
    isInfinite = part(layout.isInfinite, common.sizes(), at::kBool);
    at::abs_out(terms, common);
    at::eq_out(isInfinite, terms, wrap(infinity));
  }
  const StepMemory of = {layout.studentTanh, layout.logProbabilities,
                         layout.studentLogits};
  at::Tensor logProbs = findLogProbs(common, parts.student, studentType, of),
             probs = findTarget(begin, count);
  const float zero = 0;
  switch (parts.terms) {
  case Terms::Divergence:
    at::xlogy_out(terms, probs, probs);
    at::mul_out(other, probs, logProbs);
    terms.sub_(other);
    break;
  case Terms::LogDivergence:
    at::sub_out(terms, probs, logProbs);
    at::exp_out(other, probs);
    terms.mul_(other);
    probs = other;
    break;
  case Terms::CrossEntropy:
    at::mul_out(terms, probs, logProbs);
    if (isInfinite.defined())
      terms.masked_fill_(isInfinite, wrap(zero));
    break;
  }
  addDivergence(begin, terms);
  if (!hasGradient)
    return {};
  at::Tensor gradient = *teacher.gradient;
  if (teacher.byRow)
    gradient = gradient.narrow(0, begin, count).unsqueeze(1);
  at::mul_out(terms, probs, gradient);
  if (isInfinite.defined())
    terms.masked_fill_(isInfinite, wrap(zero));
  at::_log_softmax_backward_data_out(terms, terms, logProbs, 1, studentType);
  return reverseSteps(terms, parts.student, of);
}

void Chunks::addDivergence(int64_t begin, const at::Tensor &terms) {
  if (given.teacher->byRow) {
    at::Tensor sums = results.divergence.narrow(0, begin, terms.size(0));
    at::sum_out(sums, terms, 1);
    return;
  }
  if (divergence)
    return divergence->add(terms);
  const at::ScalarType type =
      studentType == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sums = part(layout.divergenceSums, {2}, type),
             all = sums.select(0, 0), ofChunk = sums.select(0, 1);
  if (begin == 0)
    all.zero_();
  at::sum_out(ofChunk, terms, at::OptionalIntArrayRef(), false, type);
  all.add_(ofChunk);
}

void Chunks::finishDivergence() {
  if (!given.teacher || given.teacher->byRow)
    return;
  if (divergence)
    results.divergence.fill_(divergence->finish());
  else
    results.divergence.copy_(
        part(layout.divergenceSums, {2},
             studentType == at::kDouble ? at::kDouble : at::kFloat)
            .select(0, 0));
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

} // namespace

ChunkedLoss::Results ChunkedLoss::run() const { return Chunks(*this).run(); }

} // namespace fcdp
