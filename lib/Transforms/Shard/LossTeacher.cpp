// SPDX-License-Identifier: Apache-2.0
//
// Matches the comparison of a student's logits with a teacher's: a divergence
// or a cross entropy of all classes, and its gradient.

#include "Shard/LossMatcher.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

/// Returns the other factor of a product of two tensors, or null.
static Value findFactorBeside(CallOp call, Value one) {
  if (call.getCallee() != "aten.mul.Tensor" || call.getNumOperands() != 2 ||
      call.getArgNames().size() != 2)
    return {};
  return isSame(call.getOperand(0), one)   ? call.getOperand(1)
         : isSame(call.getOperand(1), one) ? call.getOperand(0)
                                           : Value();
}

/// Returns whether the call subtracts its operand 1 from operand 0.
static bool isDifference(CallOp call) {
  return call.getCallee() == "aten.sub.Tensor" && call.getNumOperands() == 2 &&
         call.getArgNames().size() == 2;
}

/// Returns whether the call fills with zeros.
static bool isZero(CallOp call) {
  Attribute value = call.getArgument("value");
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValue().isPosZero();
  auto number = dyn_cast_or_null<IntegerAttr>(value);
  return number && number.getValue().isZero();
}

/// Returns whether the call computes terms of the log-probabilities.
static bool isForward(CallOp call, Value logProbs) {
  return (findFactorBeside(call, logProbs) || isDifference(call)) &&
         typeOf(call.getResult(0)) == typeOf(logProbs);
}

bool fcdp::comparesLogits(CallOp call) {
  return call.getCallee() == "aten._log_softmax.default" &&
         llvm::any_of(call->getUsers(), [&](Operation *user) {
           auto of = dyn_cast<CallOp>(user);
           return of && isForward(of, call.getResult(0)) &&
                  // The student is subtracted from its teacher.
                  (!isDifference(of) || of.getOperand(1) == call.getResult(0));
         });
}

/// Matches the comparison that this log-softmax is part of. Without a cross
/// entropy, it is also what leads to the product.
bool LossMatcher::matchTeacher(CallOp softmax) {
  LossTeacher &teacher = head.teacher.emplace();
  teacher.logProbs = take(softmax).getResult(0);
  if (!isLogSoftmax(softmax) || !teacher.getType().hasStaticShape())
    return fail("its log-softmax is not over the classes of a matrix");
  Value from = getOperand(softmax, "self");
  if (from)
    from = followLogits(from, teacher.student);
  CallOp product = getCall(from, "aten.mm.default");
  if (!product)
    product = getCall(from, "aten.addmm.default");
  if (!product)
    return failForLogits(from);
  if (teacher.student.isSliced())
    return fail("its logits are sliced for a teacher: slice hidden states "
                "before the projection");
  if (!head.loss) {
    logProbs = teacher.logProbs;
    head.logProbs = teacher.getType();
    lossType = head.logProbs.getElementType();
    head.logits = teacher.student;
    teacher.common = teacher.student.steps.size();
    if (!matchProduct(product))
      return false;
  } else if (product.getResult(0) != head.product) {
    return fail("its labels and its teacher have other logits");
  } else {
    for (auto [one, other] :
         llvm::zip(head.logits.path, teacher.student.path)) {
      if (one != other)
        break;
      teacher.common += !llvm::is_contained(head.logits.shapes, one);
    }
  }
  return matchTerms();
}

/// Matches what is computed from both models' log-probabilities.
bool LossMatcher::matchTerms() {
  LossTeacher &teacher = *head.teacher;
  Value logProbs = teacher.logProbs;
  CallOp compared;
  for (Operation *user : logProbs.getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    if (!call || !isForward(call, logProbs))
      continue;
    if (compared)
      return failForUser(call);
    compared = take(call);
  }
  if (!compared)
    return fail("its log-probabilities are not compared with a teacher's");
  Value terms = compared.getResult(0);
  if (isDifference(compared)) {
    if (compared.getOperand(1) != logProbs)
      return fail("its teacher is subtracted from it");
    Value target = compared.getOperand(0);
    auto softmax = getCall(target, "aten._log_softmax.default");
    auto product =
        terms.hasOneUse() ? dyn_cast<CallOp>(*terms.user_begin()) : CallOp();
    CallOp exp =
        product ? getCall(findFactorBeside(product, terms), "aten.exp.default")
                : CallOp();
    if (!softmax || !exp || exp.getOperand(0) != target)
      return fail("its terms are not those of a divergence");
    teacher.terms = "log";
    teacher.probs = takeTeacher(exp).getResult(0);
    return matchTeacherLogits(softmax) &&
           matchReduction(take(product).getResult(0));
  }
  if (!matchProbs(findFactorBeside(compared, logProbs)))
    return false;
  const bool isExp = teacher.terms == "exp";
  teacher.terms = isExp ? "cross_exp" : "cross";
  if (!terms.hasOneUse())
    return fail("its terms have another user");
  auto user = dyn_cast<CallOp>(*terms.user_begin());
  if (user && isDifference(user) && user.getOperand(1) == terms) {
    CallOp entropy = getCall(user.getOperand(0), "aten.xlogy.Tensor");
    if (!entropy || !isSame(entropy.getOperand(0), teacher.probs) ||
        !isSame(entropy.getOperands().back(), teacher.probs))
      return fail("its terms are not those of a divergence");
    takeTeacher(entropy);
    teacher.terms = isExp ? "kl_exp" : "kl";
    terms = take(user).getResult(0);
  } else if (user && user.getCallee() == "aten.masked_fill.Scalar" &&
             user.getNumOperands() == 2 && user.getOperand(0) == terms) {
    if (!matchInfinite(user.getOperand(1)) || !isZero(user))
      return reason.empty() ? fail("its terms are masked") : false;
    terms = take(user).getResult(0);
  }
  return matchReduction(terms);
}

/// Matches the teacher's probabilities: a softmax, or what a log-softmax is
/// the logarithm of.
bool LossMatcher::matchProbs(Value probs) {
  LossTeacher &teacher = *head.teacher;
  teacher.probs = probs;
  if (CallOp exp = getCall(probs, "aten.exp.default")) {
    auto softmax = getCall(exp.getOperand(0), "aten._log_softmax.default");
    if (softmax && softmax.getResult(0).hasOneUse()) {
      takeTeacher(exp);
      teacher.terms = "exp";
      return matchTeacherLogits(softmax);
    }
  }
  if (CallOp softmax = getCall(probs, "aten._softmax.default"))
    return matchTeacherLogits(softmax);
  auto call = probs.getDefiningOp<CallOp>();
  return fail(call ? "'" + call.getCallee() +
                         "' computes what its log-probabilities are "
                         "multiplied with"
                   : llvm::Twine("its log-probabilities are multiplied with "
                                 "what is no softmax"));
}

/// Goes from the teacher's softmax back to its projection, or to logits that
/// are there as a whole.
bool LossMatcher::matchTeacherLogits(CallOp softmax) {
  LossTeacher &teacher = *head.teacher;
  takeTeacher(softmax);
  if (!isLogSoftmax(softmax))
    return fail("its teacher's softmax is not over the classes of a matrix");
  Value from = followLogits(getOperand(softmax, "self"), teacher.logits,
                            /*stopsAtUsers=*/true);
  for (CallOp call : teacher.logits.path)
    ofTeacher.insert(call);
  if (teacher.logits.isSliced())
    return fail("its teacher's logits are sliced: slice hidden states before "
                "the projection");
  if (Operation *op = from.getDefiningOp(); op && head.calls.contains(op))
    return fail("its teacher has the same logits");
  teacher.hidden = from;
  CallOp product = getCall(from, "aten.mm.default");
  if (!product)
    product = getCall(from, "aten.addmm.default");
  if (!product || !from.hasOneUse())
    return true;
  Projection projection = readProjection(product);
  if (!projection.weight || projection.isScaled)
    return true;
  takeTeacher(product);
  teacher.hidden = projection.hidden;
  teacher.weight = projection.weight;
  teacher.bias = projection.bias;
  return true;
}

/// Matches the test whether logits are infinite, before a cast or after it.
bool LossMatcher::matchInfinite(Value isInfinite) {
  LossTeacher &teacher = *head.teacher;
  CallOp test = getCall(isInfinite, "aten.isinf.default");
  Value tested = test ? skipReshapes(test.getOperand(0)) : Value();
  Value logits = teacher.student.path.empty()
                     ? head.product
                     : teacher.student.path.back().getResult(0);
  while (tested && skipReshapes(logits) != tested) {
    auto call = skipReshapes(logits).getDefiningOp<CallOp>();
    if (!call || call.getCallee() != "aten._to_copy.default")
      return fail("its terms are masked");
    logits = call.getOperand(0);
  }
  if (!tested || typeOf(isInfinite).getShape() != teacher.getType().getShape())
    return fail("its terms are masked");
  teacher.isInfinite = takeTeacher(test).getResult(0);
  return true;
}

/// Matches the sum or the mean of all terms, or the sums of rows.
bool LossMatcher::matchReduction(Value terms) {
  LossTeacher &teacher = *head.teacher;
  auto call =
      terms.hasOneUse() ? dyn_cast<CallOp>(*terms.user_begin()) : CallOp();
  StringRef callee = call ? call.getCallee() : StringRef();
  if (typeOf(terms) != teacher.getType())
    return fail("its terms are not of the type of its log-probabilities");
  teacher.isByRow = callee == "aten.sum.dim_IntList" &&
                    isLastDimList(call, teacher.getType().getRank());
  teacher.isMean = callee == "aten.mean.default";
  if ((!teacher.isByRow && !teacher.isMean && callee != "aten.sum.default") ||
      !isNone(call, "dtype"))
    return fail(callee.empty() ? "its terms have another user"
                               : "'" + callee + "' uses its terms");
  teacher.sum = take(call);
  return true;
}

/// Matches the gradient of log-probabilities: probabilities, times the gradient
/// of the sum.
bool LossMatcher::matchTeacherGradient(Value gradient) {
  LossTeacher &teacher = *head.teacher;
  bool hasProbs = false, isMasked = false, isDivided = false;
  auto isWhole = [&](Value value) {
    return value.hasOneUse() && typeOf(value) == teacher.getType();
  };
  while (isWhole(gradient)) {
    auto call = gradient.getDefiningOp<CallOp>();
    StringRef callee = call ? call.getCallee() : StringRef();
    if (callee == "aten.neg.default") {
      teacher.negatesGradient ^= true;
      gradient = take(call).getOperand(0);
    } else if (Value other = call && !hasProbs
                                 ? findFactorBeside(call, teacher.probs)
                                 : Value()) {
      hasProbs = true;
      take(call);
      gradient = other;
    } else if (callee == "aten.masked_fill.Scalar" && hasProbs && !isMasked &&
               call.getOperand(1) == teacher.isInfinite && isZero(call)) {
      isMasked = true;
      gradient = take(call).getOperand(0);
    } else if (callee == "aten.div.Scalar" && hasProbs && !isDivided &&
               getFactor(call) == teacher.getType().getNumElements()) {
      isDivided = true;
      gradient = take(call).getOperand(0);
    } else if (callee == "aten.expand.default" && hasProbs) {
      return (isMasked == !!teacher.isInfinite && isDivided == teacher.isMean &&
              matchTermGradient(getOperand(take(call), "self"))) ||
             fail("the gradient of its teacher's terms is not that of a sum");
    } else {
      break;
    }
  }
  return fail("the gradient of its teacher's terms is not that of a sum");
}

/// Matches the gradient of one sum of terms, or of one for each row.
bool LossMatcher::matchTermGradient(Value gradient) {
  LossTeacher &teacher = *head.teacher;
  if (teacher.isByRow)
    if (CallOp column = getCall(gradient, "aten.unsqueeze.default");
        column && isLastDim(column, teacher.getType().getRank()) &&
        typeOf(column.getOperand(0)).getRank() ==
            teacher.getType().getRank() - 1)
      gradient = take(column).getOperand(0);
  teacher.gradient = gradient;
  return true;
}

bool LossMatcher::checkTeacherTypes() {
  const LossTeacher &teacher = *head.teacher;
  RankedTensorType type = teacher.getType();
  Type element = type.getElementType();
  auto byRow = RankedTensorType::get(type.getShape().drop_back(), element);
  SmallVector<int64_t> sizes(byRow.getShape());
  sizes.push_back(1);
  auto byColumn = RankedTensorType::get(sizes, element),
       one = RankedTensorType::get({}, element);
  auto fits = [&](Value value) {
    return !value || (teacher.isByRow ? value.getType() == byRow ||
                                            value.getType() == byColumn
                                      : value.getType() == one);
  };
  RankedTensorType hidden = typeOf(teacher.hidden);
  const int64_t rows = head.getRows(), vocabulary = head.getVocabulary();
  const bool isProjected =
      !teacher.weight ||
      (hidden.getRank() == 2 &&
       typeOf(teacher.weight) ==
           RankedTensorType::get({vocabulary, hidden.getDimSize(1)},
                                 hidden.getElementType()) &&
       (!teacher.bias ||
        typeOf(teacher.bias) ==
            RankedTensorType::get({vocabulary}, hidden.getElementType())));
  const int64_t width = teacher.weight ? hidden.getShape().back() : vocabulary;
  const bool isF32 = llvm::is_contained(teacher.logits.steps, "cast");
  return typeOf(teacher.probs) == type && fits(teacher.gradient) &&
         fits(CallOp(teacher.sum).getResult(0)) && hidden.hasStaticShape() &&
         type.getNumElements() == rows * vocabulary &&
         type.getShape().back() == vocabulary && isProjected &&
         hidden.getNumElements() == rows * width && width != 0 &&
         (isF32 ? element.isF32() : hidden.getElementType() == element);
}
