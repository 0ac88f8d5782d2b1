// SPDX-License-Identifier: Apache-2.0

#include "dialects/Aten/ChunkedLoss.h"

#include "dialects/Aten/ResultShapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fcdp;
using namespace fcdp::aten;

static RankedTensorType getTensor(CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<OperandAttr>(call.getArgument(name));
  return operand ? cast<RankedTensorType>(
                       call.getOperand(operand.getIndex()).getType())
                 : RankedTensorType();
}

static std::optional<int64_t> getInteger(CallOp call, StringRef name) {
  auto value = dyn_cast_or_null<IntegerAttr>(call.getArgument(name));
  return value && !isa<BoolAttr>(value) ? std::optional(value.getInt())
                                        : std::nullopt;
}

static SmallVector<StringRef> getSteps(CallOp call, StringRef name = "steps") {
  SmallVector<StringRef> steps;
  if (auto text = dyn_cast_or_null<StringAttr>(call.getArgument(name)))
    text.getValue().split(steps, ' ', -1, /*KeepEmpty=*/false);
  return steps;
}

/// Returns which gradients the call computes, or none if it does not say so.
static std::optional<std::array<bool, 3>> getMask(CallOp call) {
  auto list = dyn_cast_or_null<ArrayAttr>(call.getArgument("output_mask"));
  if (!list || list.size() != 3 || !llvm::all_of(list, llvm::IsaPred<BoolAttr>))
    return std::nullopt;
  std::array<bool, 3> mask;
  for (auto [one, attr] : llvm::zip_equal(mask, list.getAsRange<BoolAttr>()))
    one = attr.getValue();
  return mask;
}

static bool isTrue(CallOp call, StringRef name) {
  auto value = dyn_cast_or_null<BoolAttr>(call.getArgument(name));
  return value && value.getValue();
}

static bool hasTeacher(CallOp call) {
  return call.getCallee() == kChunkedDistillation;
}

static unsigned countReturns(CallOp call) {
  return kMostLossReturns - !hasTeacher(call);
}

ArrayRef<StringRef> fcdp::aten::getTeacherTerms() {
  static const StringRef terms[] = {"kl", "kl_exp", "log", "cross",
                                    "cross_exp"};
  return terms;
}

Value fcdp::aten::getLossReturn(CallOp call, LossReturn which) {
  unsigned next = 0;
  for (unsigned i = 0; i < countReturns(call); ++i) {
    bool isUndefined = call.getUndefined() &&
                       llvm::is_contained(*call.getUndefined(), int64_t(i));
    if (i == static_cast<unsigned>(which))
      return isUndefined ? Value() : call.getResult(next);
    next += !isUndefined;
  }
  return {};
}

LossShape fcdp::aten::getLossShape(RankedTensorType hidden, int64_t vocabulary,
                                   ArrayRef<StringRef> steps, int64_t rows,
                                   std::array<bool, 3> mask, int64_t block,
                                   const LossShape::Teacher &teacher) {
  LossShape shape;
  shape.rows = hidden.getDimSize(0);
  shape.chunk = rows;
  shape.hidden = hidden.getDimSize(1);
  shape.vocabulary = vocabulary;
  shape.block = block;
  shape.modelBytes = hidden.getElementTypeBitWidth() / 8;
  shape.isCast = llvm::is_contained(steps, "cast");
  shape.hasTanh = llvm::is_contained(steps, "tanh");
  shape.trainsHidden = mask[0];
  shape.trainsWeight = mask[1];
  shape.trainsBias = mask[2];
  shape.teacher = teacher;
  return shape;
}

/// Returns the sizes of a teacher's part of the call.
static LossShape::Teacher getTeacher(CallOp call) {
  LossShape::Teacher teacher;
  if (!hasTeacher(call))
    return teacher;
  RankedTensorType logits = getTensor(call, "teacher");
  SmallVector<StringRef> steps = getSteps(call, "teacher_steps"),
                         student = getSteps(call, "student_steps"),
                         common = getSteps(call);
  common.truncate(*getInteger(call, "common"));
  teacher.exists = true;
  teacher.hasLabels = !!getTensor(call, "labels");
  teacher.hidden = getTensor(call, "teacher_weight") ? logits.getDimSize(1) : 0;
  teacher.modelBytes = logits.getElementTypeBitWidth() / 8;
  teacher.isCast = llvm::is_contained(steps, "cast");
  teacher.hasTanh = llvm::is_contained(steps, "tanh");
  teacher.isCommonCast = llvm::is_contained(common, "cast");
  teacher.isStudentCast = llvm::is_contained(student, "cast");
  teacher.hasStudentTanh = llvm::is_contained(student, "tanh");
  teacher.skipsInfinite = isTrue(call, "skip_infinite");
  return teacher;
}

ChunkedLoss ChunkedLoss::of(CallOp call) {
  ChunkedLoss loss;
  loss.hidden = getTensor(call, "hidden");
  loss.weight = getTensor(call, "weight");
  loss.shape =
      getLossShape(loss.hidden, loss.weight.getDimSize(0), getSteps(call),
                   *getInteger(call, "rows"), *getMask(call),
                   getInteger(call, "block").value_or(0), getTeacher(call));
  Type f32 = Float32Type::get(call.getContext()),
       model = loss.hidden.getElementType();
  const LossShape::Teacher &teacher = loss.shape.teacher;
  loss.lossType = loss.shape.isCast ? f32 : model;
  loss.studentType =
      teacher.isCommonCast || teacher.isStudentCast ? f32 : model;
  loss.teacher = getTensor(call, "teacher");
  return loss;
}

static LogicalResult expectVector(CallOp call, StringRef name, int64_t size,
                                  Type of) {
  auto expected = RankedTensorType::get({size}, of);
  RankedTensorType type = getTensor(call, name);
  if (type == expected)
    return success();
  return call.emitOpError("expected '")
         << name << "' to be " << expected << ", got " << type;
}

/// Checks a teacher's logits, or its hidden states and their projection.
static LogicalResult verifyTeacher(CallOp call) {
  RankedTensorType logits = getTensor(call, "teacher"),
                   weight = getTensor(call, "teacher_weight");
  const int64_t rows = getTensor(call, "hidden").getDimSize(0),
                vocabulary = getTensor(call, "weight").getDimSize(0);
  if (!logits || logits.getRank() != 2 || !logits.hasStaticShape() ||
      !isa<FloatType>(logits.getElementType()) ||
      logits.getElementTypeBitWidth() % 8 != 0 ||
      logits.getDimSize(0) != rows ||
      (!weight && logits.getDimSize(1) != vocabulary))
    return call.emitOpError("expected 'teacher' to be ")
           << rows << " rows of floats, got " << logits;
  Type element = logits.getElementType();
  auto expected =
      RankedTensorType::get({vocabulary, logits.getDimSize(1)}, element);
  if (weight && weight != expected)
    return call.emitOpError("expected 'teacher_weight' to be ")
           << expected << ", got " << weight;
  if (!getTensor(call, "teacher_bias"))
    return success();
  if (!weight)
    return call.emitOpError("expected no 'teacher_bias' of given logits");
  return expectVector(call, "teacher_bias", vocabulary, element);
}

/// Checks the operands; sizes must be known before anything is derived of them.
static LogicalResult verifyOperands(CallOp call) {
  RankedTensorType hidden = getTensor(call, "hidden"),
                   weight = getTensor(call, "weight"),
                   labels = getTensor(call, "labels"),
                   bias = getTensor(call, "bias");
  if (!hidden || hidden.getRank() != 2 || !hidden.hasStaticShape() ||
      !isa<FloatType>(hidden.getElementType()) ||
      hidden.getElementType().getIntOrFloatBitWidth() % 8 != 0)
    return call.emitOpError("expected 'hidden' to be a matrix of floats, got ")
           << hidden;
  Type element = hidden.getElementType();
  if (!weight || weight.getRank() != 2 || !weight.hasStaticShape() ||
      weight.getElementType() != element ||
      weight.getDimSize(1) != hidden.getDimSize(1))
    return call.emitOpError("expected a matrix 'weight' of ")
           << hidden.getDimSize(1) << " columns of " << element << ", got "
           << weight;
  const bool mayLackLabels = hasTeacher(call) && !labels;
  if (!mayLackLabels &&
      failed(expectVector(call, "labels", hidden.getDimSize(0),
                          IntegerType::get(call.getContext(), 64))))
    return failure();
  if (bias && failed(expectVector(call, "bias", weight.getDimSize(0), element)))
    return failure();
  return hasTeacher(call) ? verifyTeacher(call) : success();
}

/// Checks the steps and factors of some logits.
static LogicalResult verifySteps(CallOp call, StringRef name,
                                 StringRef factorName) {
  SmallVector<StringRef> steps = getSteps(call, name);
  for (StringRef step : steps)
    if (!llvm::is_contained({"div", "mul", "tanh", "cast"}, step))
      return call.emitOpError("expected steps 'div', 'mul', 'tanh' and "
                              "'cast', got '")
             << step << "'";
  if (llvm::count(steps, "tanh") > 1 || llvm::count(steps, "cast") > 1)
    return call.emitOpError("expected at most one step 'tanh' and one 'cast'");
  auto factors = dyn_cast_or_null<ArrayAttr>(call.getArgument(factorName));
  int64_t scalings = llvm::count(steps, "div") + llvm::count(steps, "mul");
  int64_t given = factors ? factors.size() : 0;
  if (given != scalings ||
      (factors && !llvm::all_of(factors, llvm::IsaPred<FloatAttr>)))
    return call.emitOpError("expected a factor for each of ")
           << scalings << " steps 'div' and 'mul', got " << given;
  return success();
}

/// Checks the literals that only a loss with a teacher has.
static LogicalResult verifyTeacherLiterals(CallOp call) {
  if (failed(verifySteps(call, "student_steps", "student_factors")) ||
      failed(verifySteps(call, "teacher_steps", "teacher_factors")))
    return failure();
  SmallVector<StringRef> steps = getSteps(call);
  std::optional<int64_t> common = getInteger(call, "common");
  const int64_t count = steps.size();
  if (!common || *common < 0 || *common > count ||
      (!getTensor(call, "labels") && *common != count))
    return call.emitOpError("expected 'common' to be a number of ")
           << count << " steps, or all without labels, got "
           << call.getArgument("common");
  steps.truncate(*common);
  llvm::append_range(steps, getSteps(call, "student_steps"));
  if (llvm::count(steps, "tanh") > 1 || llvm::count(steps, "cast") > 1)
    return call.emitOpError("expected at most one step 'tanh' and one 'cast'");
  auto terms = dyn_cast_or_null<StringAttr>(call.getArgument("terms"));
  if (!terms || !llvm::is_contained(getTeacherTerms(), terms.getValue()))
    return call.emitOpError("expected 'terms' to be one of ")
           << llvm::join(getTeacherTerms(), ", ") << ", got "
           << call.getArgument("terms");
  if (isTrue(call, "skip_infinite") && !terms.getValue().starts_with("cross"))
    return call.emitOpError(
               "expected 'skip_infinite' with a cross entropy alone, got ")
           << terms;
  return success();
}

/// Checks the literals, except for the size of the workspace.
static LogicalResult verifyLiterals(CallOp call) {
  int64_t most = getTensor(call, "hidden").getDimSize(0);
  std::optional<int64_t> rows = getInteger(call, "rows");
  if (!rows || *rows < 1 || *rows > most ||
      (*rows != most && *rows % kLossRowMultiple != 0))
    return call.emitOpError("expected 'rows' to be a multiple of ")
           << kLossRowMultiple << " below " << most << ", or " << most
           << ", got " << call.getArgument("rows");
  int64_t logits;
  if (llvm::MulOverflow(*rows, getTensor(call, "weight").getDimSize(0),
                        logits) ||
      logits > kMostTensorBytes / 8)
    return call.emitOpError("expected chunks of at most ")
           << kMostTensorBytes / 8 << " logits, got " << *rows << " rows";
  std::optional<int64_t> reduction = getInteger(call, "reduction");
  if (!reduction || *reduction < 0 || *reduction > 2)
    return call.emitOpError("expected 'reduction' 0, 1 or 2, got ")
           << call.getArgument("reduction");
  // A gather ignores no label.
  Attribute ignored = call.getArgument("ignore_index");
  if (!getInteger(call, "ignore_index") &&
      !(isa_and_present<UnitAttr>(ignored) && reduction == 0))
    return call.emitOpError("expected an integer 'ignore_index', got ")
           << call.getArgument("ignore_index");
  if (!getMask(call))
    return call.emitOpError("expected 3 elements of 'output_mask', got ")
           << call.getArgument("output_mask");
  if (failed(verifySteps(call, "steps", "factors")))
    return failure();
  return hasTeacher(call) ? verifyTeacherLiterals(call) : success();
}

static LogicalResult verifyGradients(CallOp call, const ChunkedLoss &loss,
                                     bool isByRow) {
  RankedTensorType gradient = getTensor(call, "gradient"),
                   sums = getTensor(call, "sum_gradient");
  auto byRow = RankedTensorType::get({loss.shape.rows}, loss.lossType);
  auto one = RankedTensorType::get({}, loss.lossType);
  const LossShape::Teacher &teacher = loss.shape.teacher;
  const bool hasLabels = teacher.exists == teacher.hasLabels;
  if (!hasLabels && (gradient || sums || isTrue(call, "sums")))
    return call.emitOpError("expected labels for 'gradient', 'sum_gradient' "
                            "and 'sums'");
  if (hasLabels && loss.shape.hasGradient() &&
      gradient != (isByRow ? byRow : one))
    return call.emitOpError("expected 'gradient' to be ")
           << (isByRow ? byRow : one) << ", got " << gradient;
  if (sums && sums != byRow)
    return call.emitOpError("expected 'sum_gradient' to be ")
           << byRow << ", got " << sums;
  if (loss.shape.trainsBias && !getTensor(call, "bias"))
    return call.emitOpError("expected a bias, whose gradient it computes");
  if (!teacher.exists)
    return success();
  Type ofStudent = loss.studentType,
       ofTeacher = teacher.isCast ? Float32Type::get(call.getContext())
                                  : loss.teacher.getElementType();
  if (ofTeacher != ofStudent)
    return call.emitOpError("expected the teacher's probabilities in ")
           << ofStudent << ", got " << ofTeacher;
  SmallVector<int64_t, 1> sizes;
  if (isTrue(call, "by_row"))
    sizes.push_back(loss.shape.rows);
  auto expected = RankedTensorType::get(sizes, ofStudent);
  RankedTensorType given = getTensor(call, "teacher_gradient");
  if (given != expected && (given || loss.shape.hasGradient()))
    return call.emitOpError("expected 'teacher_gradient' to be ")
           << expected << ", got " << given;
  return success();
}

/// Checks that the weight's gradient is computed by blocks only where that
/// needs less memory.
static LogicalResult verifyBlock(CallOp call, const LossShape &shape) {
  if (!call.getArgument("block"))
    return success();
  const int64_t most = shape.getLargestBlock();
  if (most == 0)
    return call.emitOpError(
               "expected no 'block' for a gradient of the weight whose sum has "
               "no memory of its own, for log-probabilities that are not cast, "
               "or for chunks of this size, got ")
           << call.getArgument("block");
  if (shape.block < kLossBlockMultiple || shape.block > most ||
      shape.block % kLossBlockMultiple != 0)
    return call.emitOpError("expected 'block' to be a multiple of ")
           << kLossBlockMultiple << " up to " << most << ", got "
           << call.getArgument("block");
  return success();
}

static LogicalResult verifyReturns(CallOp call, const ChunkedLoss &loss,
                                   bool isByRow) {
  std::optional<int64_t> bytes = getInteger(call, "workspace");
  const int64_t needed = LossWorkspace(loss.shape).bytes;
  if (bytes != needed)
    return call.emitOpError("expected 'workspace' ")
           << needed << ", the bytes of a chunk, got "
           << call.getArgument("workspace");
  Type element = loss.hidden.getElementType();
  auto one = RankedTensorType::get({}, loss.lossType);
  auto byRow = RankedTensorType::get({loss.shape.rows}, loss.lossType);
  auto bias = RankedTensorType::get({1, loss.shape.vocabulary}, element);
  auto workspace = RankedTensorType::get(
      {needed}, IntegerType::get(call.getContext(), 8, IntegerType::Unsigned));
  const LossShape::Teacher &teacher = loss.shape.teacher;
  const bool hasLabels = teacher.exists == teacher.hasLabels;
  SmallVector<int64_t, 1> sizes;
  if (isTrue(call, "by_row"))
    sizes.push_back(loss.shape.rows);
  auto ofLabels = [&](RankedTensorType type) {
    return hasLabels ? type : RankedTensorType();
  };
  const RankedTensorType expected[kMostLossReturns] = {
      ofLabels(isByRow ? byRow : one),
      ofLabels(one),
      isTrue(call, "sums") ? byRow : RankedTensorType(),
      loss.shape.trainsHidden ? loss.hidden : RankedTensorType(),
      loss.shape.trainsWeight ? loss.weight : RankedTensorType(),
      loss.shape.trainsBias ? bias : RankedTensorType(),
      workspace,
      RankedTensorType::get(sizes, loss.studentType)};
  int64_t undefined = call.getUndefined() ? call.getUndefined()->size() : 0;
  if (call.getNumResults() + undefined != countReturns(call))
    return call.emitOpError("expected ")
           << countReturns(call) << " returns, got "
           << call.getNumResults() + undefined;
  for (unsigned i = 0; i < countReturns(call); ++i) {
    Value result = getLossReturn(call, static_cast<LossReturn>(i));
    if (result && !expected[i])
      return call.emitOpError("expected return ") << i << " to be undefined";
    if (!result && expected[i])
      return call.emitOpError("expected return ")
             << i << " to be " << expected[i] << ", got none";
    if (result && result.getType() != expected[i])
      return call.emitOpError("expected return ")
             << i << " to be " << expected[i] << ", got " << result.getType();
  }
  return success();
}

LogicalResult fcdp::aten::verifyChunkedLoss(CallOp call) {
  if (call.getCallee() != kChunkedLoss && !hasTeacher(call))
    return success();
  if (failed(verifyOperands(call)) || failed(verifyLiterals(call)))
    return failure();
  ChunkedLoss loss = ChunkedLoss::of(call);
  const bool isByRow = getInteger(call, "reduction") == 0;
  return success(succeeded(verifyBlock(call, loss.shape)) &&
                 succeeded(verifyGradients(call, loss, isByRow)) &&
                 succeeded(verifyReturns(call, loss, isByRow)));
}
