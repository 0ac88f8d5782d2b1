// SPDX-License-Identifier: Apache-2.0
//
// Computes a chunked loss. The rows of a chunk are compared with their labels
// (ChunkedLoss.cpp) or also with a teacher's logits (ChunkedDistillation.cpp).
#pragma once

#include "core/LossWorkspace.h"
#include "operators/ChunkedLoss.h"
#include "operators/WholeSum.h"

#include <ATen/ops/from_blob.h>

#include <optional>
#include <string>
#include <vector>

namespace fcdp::chunked {

enum class LogitKind { Divide, Multiply, Tanh, Cast };

/// One of the operations between the product and the log-softmax.
struct LogitStep {
  LogitKind kind;
  double factor = 0;
};

using LogitSteps = std::vector<LogitStep>;

/// Throws std::runtime_error.
[[noreturn]] void fail(const std::string &expected, const std::string &got);

std::string spellTensor(const at::Tensor &tensor);

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

/// Reads words 'div', 'mul', 'tanh' and 'cast', of which the first two take a
/// factor each. Throws std::runtime_error.
LogitSteps readSteps(const std::string &text,
                     const std::vector<double> &factors);

bool has(const LogitSteps &steps, LogitKind kind);

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

/// Returns no steps if there is no teacher. Throws std::runtime_error.
TeacherSteps readTeacher(const ChunkedLoss &given, const LogitSteps &steps);

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

} // namespace fcdp::chunked
