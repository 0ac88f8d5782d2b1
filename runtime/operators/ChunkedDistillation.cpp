// SPDX-License-Identifier: Apache-2.0
//
// Compares the logits of a student with those of its teacher, chunk by chunk.

#include "operators/ChunkedLossImpl.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/xlogy.h>

#include <limits>

namespace fcdp::chunked {

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

} // namespace fcdp::chunked
