// SPDX-License-Identifier: Apache-2.0

#include "Shard/LossHead.h"

#include "dialects/Aten/OpTable.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fcdp;

using aten::CallOp;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t LossHead::getRows() const { return typeOf(hidden).getDimSize(0); }
int64_t LossHead::getVocabulary() const { return typeOf(weight).getDimSize(0); }

static CallOp getCall(Value value, StringRef callee) {
  auto call = value ? value.getDefiningOp<CallOp>() : CallOp();
  return call && call.getCallee() == callee ? call : CallOp();
}

static Value getOperand(CallOp call, StringRef name) {
  auto operand = dyn_cast_or_null<aten::OperandAttr>(call.getArgument(name));
  return operand ? call.getOperand(operand.getIndex()) : Value();
}

static bool isInteger(CallOp call, StringRef name, int64_t wanted) {
  auto value = dyn_cast_or_null<IntegerAttr>(call.getArgument(name));
  return value && value.getInt() == wanted;
}

static bool isNone(CallOp call, StringRef name) {
  Attribute value = call.getArgument(name);
  return !value || isa<UnitAttr>(value);
}

static bool isIntegerList(CallOp call, StringRef name, int64_t only) {
  auto list = dyn_cast_or_null<ArrayAttr>(call.getArgument(name));
  auto first =
      list && list.size() == 1 ? dyn_cast<IntegerAttr>(list[0]) : IntegerAttr();
  return first && first.getInt() == only;
}

/// Returns whether the call gives its operand another shape, or passes it on.
static bool isReshape(CallOp call) {
  return llvm::is_contained(
      {"aten.view.default", "aten._unsafe_view.default", "aten.detach.default"},
      call.getCallee());
}

static Value skipReshapes(Value value) {
  while (auto call = value.getDefiningOp<CallOp>()) {
    if (!isReshape(call))
      break;
    value = call.getOperand(0);
  }
  return value;
}

static bool isSame(Value one, Value other) {
  return one == other || (one.getType() == other.getType() &&
                          skipReshapes(one) == skipReshapes(other));
}

/// Returns the matrix that is transposed once in `value`, or null.
static Value findTransposed(Value value) {
  bool isTransposed = false;
  while (CallOp call = getCall(value, "aten.t.default")) {
    value = call.getOperand(0);
    isTransposed = !isTransposed;
  }
  return isTransposed ? value : Value();
}

/// Returns the number that the call multiplies or divides by, if it does only
/// that.
static std::optional<double> getFactor(CallOp call) {
  Attribute other = call.getArgument("other");
  if (call.getNumOperands() != 1 || call.getArgNames().size() != 2)
    return std::nullopt;
  if (auto number = dyn_cast_or_null<FloatAttr>(other))
    return number.getValueAsDouble();
  if (auto number = dyn_cast_or_null<IntegerAttr>(other);
      number && !isa<BoolAttr>(number))
    return double(number.getInt());
  return std::nullopt;
}

/// Returns the word for a call that scales, and an empty one for others.
static StringRef getScaling(CallOp call) {
  if (llvm::is_contained({"aten.div.Tensor", "aten.div.Scalar"},
                         call.getCallee()))
    return "div";
  if (llvm::is_contained({"aten.mul.Tensor", "aten.mul.Scalar"},
                         call.getCallee()))
    return "mul";
  return "";
}

/// Returns whether the call changes nothing but the type, to `wanted`. The
/// device is the step's, and the layout is strided.
static bool isCastTo(CallOp call, Type wanted) {
  return call.getCallee() == "aten._to_copy.default" &&
         typeOf(call.getResult(0)).getElementType() == wanted &&
         isNone(call, "memory_format");
}

namespace {
class Matcher {
public:
  Matcher(CallOp loss, LossHead &head) : head(head) { head.loss = loss; }
  std::string match();

private:
  bool matchForward();
  bool matchLogits(Value logits);
  bool matchProduct(CallOp product);
  bool checkReaders();
  bool matchBackward();
  bool matchSumGradient(Value gradient);
  bool matchLogitGradient(Value gradient);
  bool matchProducts(Value gradient);
  bool checkTypes();
  bool findSeeds();
  bool checkUsers();

  CallOp take(CallOp call) {
    head.calls.insert(call);
    return call;
  }
  bool failForUser(Operation *user);
  bool fail(const Twine &why) {
    reason = why.str();
    return false;
  }

  LossHead &head;
  Value logProbs;
  /// The result of the step `tanh`.
  Value tanh;
  Type lossType, modelType;
  CallOp nllBackward;
  std::string reason;
};
} // namespace

std::string Matcher::match() {
  if (matchForward() && checkReaders() && matchBackward() && checkTypes() &&
      checkUsers() && findSeeds())
    return "";
  return reason;
}

bool Matcher::matchForward() {
  CallOp loss = take(head.loss);
  if (!isNone(loss, "weight"))
    return fail("its classes have weights");
  auto reduction = dyn_cast_or_null<IntegerAttr>(loss.getArgument("reduction"));
  auto ignored =
      dyn_cast_or_null<IntegerAttr>(loss.getArgument("ignore_index"));
  head.labels = getOperand(loss, "target");
  logProbs = getOperand(loss, "self");
  if (!reduction || !ignored || !head.labels || !logProbs ||
      reduction.getInt() < 0 || reduction.getInt() > 2 ||
      loss.getNumResults() != 2)
    return fail("its arguments are not those of a cross entropy");
  head.reduction = reduction.getInt();
  head.ignoreIndex = ignored.getInt();
  auto softmax = getCall(logProbs, "aten._log_softmax.default");
  if (!softmax)
    return fail("its input is no log-softmax");
  take(softmax);
  auto half = dyn_cast_or_null<BoolAttr>(softmax.getArgument("half_to_float"));
  RankedTensorType type = typeOf(logProbs);
  if (type.getRank() != 2 ||
      !(isInteger(softmax, "dim", 1) || isInteger(softmax, "dim", -1)) ||
      !half || half.getValue() ||
      !typeOf(head.labels).getElementType().isInteger(64) ||
      typeOf(head.labels).getRank() != 1)
    return fail("its log-softmax is not over the classes of a matrix");
  lossType = type.getElementType();
  if (!matchLogits(getOperand(softmax, "self")))
    return false;
  for (Operation *user : logProbs.getUsers())
    if (auto call = dyn_cast<CallOp>(user);
        call && call.getCallee() == "aten.sum.dim_IntList" && !head.sums &&
        (isIntegerList(call, "dim", 1) || isIntegerList(call, "dim", -1)) &&
        typeOf(call.getResult(0)).getRank() == 1 && isNone(call, "dtype"))
      head.sums = take(call);
  return true;
}

/// Goes from the log-softmax back to the product.
bool Matcher::matchLogits(Value logits) {
  const int64_t vocabulary = typeOf(logProbs).getDimSize(1);
  bool isF32 = false;
  while (logits) {
    auto call = logits.getDefiningOp<CallOp>();
    if (!call)
      return fail("its logits are not the result of a product");
    if (llvm::is_contained({"aten.mm.default", "aten.addmm.default"},
                           call.getCallee()))
      return matchProduct(call);
    RankedTensorType type = typeOf(logits);
    if (type.getRank() == 0 || type.getShape().back() != vocabulary ||
        call.getNumOperands() != 1)
      return fail("'" + call.getCallee() + "' computes its logits");
    take(call);
    StringRef scaling = getScaling(call);
    std::optional<double> factor = getFactor(call);
    if (!scaling.empty() && factor) {
      head.steps.push_back(scaling);
      head.factors.push_back(*factor);
    } else if (call.getCallee() == "aten.tanh.default" && !tanh) {
      head.steps.push_back("tanh");
      tanh = logits;
    } else if (isCastTo(call, Float32Type::get(call.getContext())) && !isF32 &&
               !typeOf(call.getOperand(0)).getElementType().isF64()) {
      head.steps.push_back("cast");
      isF32 = true;
    } else if (!isReshape(call)) {
      return fail("'" + call.getCallee() + "' computes its logits");
    }
    logits = call.getOperand(0);
  }
  return fail("its logits are not the result of a product");
}

bool Matcher::matchProduct(CallOp product) {
  take(product);
  std::reverse(head.steps.begin(), head.steps.end());
  std::reverse(head.factors.begin(), head.factors.end());
  const bool hasBias = product.getCallee() == "aten.addmm.default";
  head.hidden = getOperand(product, hasBias ? "mat1" : "self");
  head.weight = findTransposed(getOperand(product, "mat2"));
  head.bias = hasBias ? getOperand(product, "self") : Value();
  if (!head.weight)
    return fail("its projection is not by a transposed matrix");
  for (StringRef scale : {"alpha", "beta"})
    if (product.getArgument(scale) && !isInteger(product, scale, 1))
      return fail("its bias or its product has a factor");
  modelType = typeOf(head.hidden).getElementType();
  RankedTensorType probs = typeOf(logProbs);
  const bool fitsBias =
      !head.bias || typeOf(head.bias) == RankedTensorType::get(
                                             {head.getVocabulary()}, modelType);
  if (!(modelType.isF16() || modelType.isBF16() || modelType.isF32() ||
        modelType.isF64()) ||
      typeOf(head.weight).getElementType() != modelType || !fitsBias ||
      !typeOf(head.hidden).hasStaticShape() ||
      !typeOf(head.weight).hasStaticShape() || head.getRows() == 0 ||
      head.getVocabulary() == 0 || probs.getDimSize(0) != head.getRows() ||
      probs.getDimSize(1) != head.getVocabulary())
    return fail("its projection is not of rows of floats, with one bias for "
                "each class");
  return true;
}

/// Checks that only the forward pass and its backward pass read logits and
/// log-probabilities.
bool Matcher::checkReaders() {
  for (Operation *op : head.calls) {
    if (op == head.loss || op == head.sums)
      continue;
    for (Operation *user : op->getUsers()) {
      auto call = dyn_cast<CallOp>(user);
      bool isKnown =
          head.calls.contains(user) ||
          (call &&
           (isReshape(call) ||
            llvm::is_contained({"aten.nll_loss_backward.default",
                                "aten._log_softmax_backward_data.default",
                                "aten.tanh_backward.default"},
                               call.getCallee())));
      if (!isKnown)
        return failForUser(user);
    }
  }
  return true;
}

bool Matcher::failForUser(Operation *user) {
  auto call = dyn_cast<CallOp>(user);
  return fail("its logits have another user, '" +
              (call ? call.getCallee() : user->getName().getStringRef()) + "'");
}

bool Matcher::matchBackward() {
  for (Operation *user : logProbs.getUsers())
    if (auto call = dyn_cast<CallOp>(user);
        call && call.getCallee() == "aten.nll_loss_backward.default" &&
        getOperand(call, "self") == logProbs && !nllBackward)
      nllBackward = call;
  if (!nllBackward)
    return true; // nothing is trained
  take(nllBackward);
  if (getOperand(nllBackward, "target") != head.labels ||
      !isInteger(nllBackward, "reduction", head.reduction) ||
      !isInteger(nllBackward, "ignore_index", head.ignoreIndex) ||
      !isNone(nllBackward, "weight") ||
      getOperand(nllBackward, "total_weight") != head.loss.getResult(1))
    return fail("its backward pass has other arguments than the loss");
  head.gradient = getOperand(nllBackward, "grad_output");
  Value gradient = nllBackward.getResult(0);
  if (gradient.hasOneUse())
    if (auto sum = dyn_cast<CallOp>(*gradient.user_begin());
        sum && sum.getCallee() == "aten.add.Tensor") {
      if (!matchSumGradient(gradient))
        return false;
      gradient = sum.getResult(0);
    }
  if (!gradient.hasOneUse())
    return fail("the gradient of its log-probabilities has another user");
  auto backward = dyn_cast<CallOp>(*gradient.user_begin());
  if (!backward ||
      backward.getCallee() != "aten._log_softmax_backward_data.default" ||
      getOperand(backward, "grad_output") != gradient ||
      skipReshapes(getOperand(backward, "output")) != logProbs ||
      typeOf(backward.getResult(0)).getElementType() != lossType)
    return fail("its backward pass is not that of a log-softmax");
  take(backward);
  return matchLogitGradient(backward.getResult(0));
}

/// Matches the gradient of sums of log-probabilities, which is added to
/// `gradient`: a vector that is expanded to all classes.
bool Matcher::matchSumGradient(Value gradient) {
  auto sum = cast<CallOp>(*gradient.user_begin());
  take(sum);
  Value other = getOperand(sum, "self") == gradient ? getOperand(sum, "other")
                                                    : getOperand(sum, "self");
  CallOp expand = getCall(other, "aten.expand.default");
  CallOp column =
      expand ? getCall(getOperand(expand, "self"), "aten.unsqueeze.default")
             : CallOp();
  if (!head.sums || !column || sum.getArgNames().size() != 2 ||
      !(isInteger(column, "dim", 1) || isInteger(column, "dim", -1)) ||
      typeOf(column.getOperand(0)).getRank() != 1)
    return fail("another gradient is added to that of its log-probabilities");
  take(expand);
  take(column);
  head.sumGradient = column.getOperand(0);
  return true;
}

/// Goes from the log-softmax's gradient to that of the product's result,
/// through the steps in reverse.
bool Matcher::matchLogitGradient(Value gradient) {
  SmallVector<StringRef> steps = head.steps;
  SmallVector<double> factors = head.factors;
  while (gradient.hasOneUse()) {
    auto call = dyn_cast<CallOp>(*gradient.user_begin());
    if (!call || call.getNumOperands() == 0 || call.getOperand(0) != gradient)
      break;
    StringRef step = steps.empty() ? StringRef() : steps.back();
    if (isReshape(call)) {
      take(call);
    } else if (!step.empty() && getScaling(call) == step &&
               getFactor(call) == factors.back()) {
      take(call);
      steps.pop_back();
      factors.pop_back();
    } else if (step == "cast" && isCastTo(call, modelType)) {
      take(call);
      steps.pop_back();
    } else if (step == "tanh" &&
               call.getCallee() == "aten.tanh_backward.default" &&
               getOperand(call, "grad_output") == gradient &&
               skipReshapes(getOperand(call, "output")) == tanh) {
      take(call);
      steps.pop_back();
    } else {
      break;
    }
    gradient = call.getResult(0);
  }
  if (!steps.empty())
    return fail("its backward pass is not that of its logits");
  return matchProducts(gradient);
}

bool Matcher::matchProducts(Value gradient) {
  auto takeOnce = [&](CallOp &slot, CallOp call) {
    bool isFirst = !slot;
    if (isFirst)
      slot = take(call);
    return isFirst;
  };
  for (Operation *user : gradient.getUsers()) {
    auto call = dyn_cast<CallOp>(user);
    StringRef callee = call ? call.getCallee() : StringRef();
    bool isKnown = false;
    if (callee == "aten.mm.default" && getOperand(call, "self") == gradient) {
      Value matrix = getOperand(call, "mat2");
      Value once = findTransposed(matrix);
      // An even number of transpositions leaves the matrix.
      while (CallOp view = getCall(matrix, "aten.t.default"))
        matrix = view.getOperand(0);
      isKnown =
          !once && matrix == head.weight && takeOnce(head.gradHidden, call);
    } else if (callee == "aten.t.default" && call.getResult(0).hasOneUse()) {
      auto product = dyn_cast<CallOp>(*call.getResult(0).user_begin());
      isKnown = product && product.getCallee() == "aten.mm.default" &&
                getOperand(product, "self") == call.getResult(0) &&
                isSame(getOperand(product, "mat2"), head.hidden) &&
                takeOnce(head.gradWeight, product);
      take(call);
    } else if (callee == "aten.sum.dim_IntList") {
      auto keeps = dyn_cast_or_null<BoolAttr>(call.getArgument("keepdim"));
      isKnown = head.bias && isIntegerList(call, "dim", 0) && keeps &&
                keeps.getValue() && isNone(call, "dtype") &&
                takeOnce(head.gradBias, call);
    }
    if (!isKnown)
      return fail("'" + (call ? callee : user->getName().getStringRef()) +
                  "' uses the gradient of its logits");
  }
  return true;
}

/// Checks that no other operation reads logits, log-probabilities, or their
/// gradients.
bool Matcher::checkUsers() {
  Operation *ends[] = {head.loss, head.sums, head.gradHidden, head.gradWeight,
                       head.gradBias};
  for (Operation *op : head.calls) {
    if (llvm::is_contained(ends, op))
      continue;
    for (Operation *user : op->getUsers()) {
      if (head.calls.contains(user))
        continue;
      // A detached value, which the backward pass reads.
      if (auto call = dyn_cast<CallOp>(user);
          call && isReshape(call) &&
          llvm::all_of(call->getUsers(), [&](Operation *reader) {
            return head.calls.contains(reader);
          }))
        continue;
      return failForUser(user);
    }
  }
  // Views that only these calls use go with them.
  SmallVector<Operation *> views;
  for (Operation *op : head.calls)
    if (!llvm::is_contained(ends, op))
      for (Operation *user : op->getUsers())
        views.push_back(user);
  for (Operation *view : views)
    head.calls.insert(view);
  return true;
}

/// Checks the types of all values that the chunked loss has as well.
bool Matcher::checkTypes() {
  const int64_t rows = head.getRows();
  Type one = RankedTensorType::get({}, lossType),
       byRow = RankedTensorType::get({rows}, lossType),
       ofLoss = head.reduction == 0 ? byRow : one;
  auto has = [](CallOp call, Type type) {
    return !call || call.getResult(0).getType() == type;
  };
  bool fits =
      head.labels.getType() ==
          RankedTensorType::get({rows},
                                IntegerType::get(one.getContext(), 64)) &&
      head.loss.getResult(0).getType() == ofLoss &&
      head.loss.getResult(1).getType() == one &&
      (!head.gradient || head.gradient.getType() == ofLoss) &&
      (!head.sumGradient || head.sumGradient.getType() == byRow) &&
      has(head.sums, byRow) && has(head.gradHidden, head.hidden.getType()) &&
      has(head.gradWeight, head.weight.getType()) &&
      has(head.gradBias,
          RankedTensorType::get({1, head.getVocabulary()}, modelType));
  return fits || fail("its tensors are not of the types of a cross entropy");
}

/// Finds the operations that compute the gradients of loss and sums. None may
/// depend on the loss, except for the ones with which the backward pass begins.
bool Matcher::findSeeds() {
  llvm::SmallSetVector<Operation *, 8> found;
  SmallVector<Value> reached;
  for (Value gradient : {head.gradient, head.sumGradient})
    if (gradient)
      reached.push_back(gradient);
  while (!reached.empty()) {
    Operation *op = reached.pop_back_val().getDefiningOp();
    if (!op || op->isBeforeInBlock(head.loss) || !found.insert(op))
      continue;
    auto call = dyn_cast<CallOp>(op);
    bool mayMove = call ? !call.drawsRandomNumbers()
                        : isa<ReadLossScaleOp, ReadLossWeightOp>(op);
    if (head.calls.contains(op) || !mayMove)
      return fail("the gradient of the loss depends on its value");
    if (call && call.getCallee() == "aten.ones_like.default")
      continue; // its operand gives the shape
    reached.append(op->operand_begin(), op->operand_end());
  }
  head.seeds.assign(found.begin(), found.end());
  llvm::sort(head.seeds, [](Operation *one, Operation *other) {
    return one->isBeforeInBlock(other);
  });
  return true;
}

std::string fcdp::matchLossHead(CallOp loss, LossHead &head) {
  return Matcher(loss, head).match();
}
