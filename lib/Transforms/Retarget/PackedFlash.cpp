// SPDX-License-Identifier: Apache-2.0
//
// The kernel takes a grid, and in its backward pass 128 rows of f32, for each
// sequence, so their number is bounded when the step is compiled. If each token
// may be a document, documents of fewer than kBlock tokens are left to the
// memory-efficient kernel. It computes blocks of kBlock queries, under a
// mask, with the keys of the block and of the block before it.

#include "PackedFlash.h"

#include "CpuAttention.h"
#include "CudaKernels.h"
#include "DocumentOrder.h"
#include "PackedCalls.h"
#include "dialects/Fcdp/Fcdp.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace mlir;
using namespace fcdp;
using aten::CallOp;

/// The queries of a block, and the tokens from which on a document is long.
static constexpr int64_t kBlock = 128;
/// With fewer blocks in a row, the whole square takes about as long as the
/// blocks.
static constexpr int64_t kFewestBlocks = 4;
/// Tokens for each document of a row. With fewer, the rows of the backward pass
/// would be more than those of the blocks.
static constexpr int64_t kTokensPerDocument = 64;

namespace {
/// The values that all layers share. Tokens of all rows are one after another.
struct Layout {
  /// The first token of each sequence, in i32; the number of tokens from the
  /// last one's end on.
  Value bounds;
  int64_t longest;
  /// Whether each token [tokens, 1, 1] is of a long document; null if all
  /// documents are sequences.
  Value isLong;
  /// The number of the document of each token, from 1 on.
  Value numbers;
};

struct Forward {
  Layout layout;
  FlashAttention::Saved flash;
  EfficientAttention::Saved blocks;
};

class Flattener {
public:
  explicit Flattener(double computeCapability)
      : hasFlash(computeCapability >= kFirstFlashCapability) {}

  bool suits(CallOp call) const;
  void forward(CallOp call, bool hasBackward);
  void backward(CallOp call, CallOp forward);

private:
  Layout getLayout(CallOp call, OpBuilder &builder);
  Value getBias(const Layout &layout, Type type, ArrayRef<int64_t> shape,
                OpBuilder &builder);
  EfficientAttention getBlocks(const Layout &layout, const FlashAttention &all,
                               OpBuilder &builder);

  bool hasFlash;
  /// By the source of documents, and their type.
  llvm::DenseMap<std::pair<Value, Type>, Layout> layouts;
  /// By numbers of documents, and the type of the query.
  llvm::DenseMap<std::pair<Value, Type>, Value> biases;
  llvm::DenseMap<Operation *, Forward> forwards;
};
} // namespace

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static Value pad(Value value, ArrayRef<int64_t> amounts, double with,
                 ArrayRef<int64_t> shape, OpBuilder &builder) {
  CallBuilder call(builder, value.getLoc(), "aten.constant_pad_nd.default");
  call.tensor("self", value).integers("pad", amounts).number("value", with);
  return createLike(call, value, shape);
}

static Value slice(Value value, int64_t dim, int64_t start, int64_t end,
                   OpBuilder &builder) {
  SmallVector<int64_t> shape(getTensorType(value).getShape());
  shape[dim] = end - start;
  CallBuilder call(builder, value.getLoc(), "aten.slice.Tensor");
  call.tensor("self", value).integer("dim", dim).integer("start", start);
  call.integer("end", end);
  return createLike(call, value, shape);
}

static Value sumFromLeft(Value value, OpBuilder &builder) {
  CallBuilder call(builder, value.getLoc(), "aten.cumsum.default");
  call.tensor("self", value).integer("dim", 0);
  return call.create({getTensorType(value).clone(builder.getI64Type())})
      .getResult(0);
}

static Value choose(Value condition, Value self, Value other,
                    OpBuilder &builder) {
  CallBuilder call(builder, self.getLoc(), "aten.where.self");
  call.tensor("condition", condition).tensor("self", self);
  call.tensor("other", other);
  RankedTensorType one = getTensorType(self), two = getTensorType(other);
  return call.create({one.getRank() >= two.getRank() ? one : two}).getResult(0);
}

static Value add(Value self, Value other, OpBuilder &builder) {
  CallBuilder call(builder, self.getLoc(), "aten.add.Tensor");
  call.tensor("self", self).tensor("other", other);
  return call.create({self.getType()}).getResult(0);
}

/// Compares integers with a number.
static Value compareWith(StringRef callee, Value self, int64_t other,
                         OpBuilder &builder) {
  CallBuilder call(builder, self.getLoc(), callee);
  call.tensor("self", self).integer("other", other);
  return call.create({getTensorType(self).clone(builder.getI1Type())})
      .getResult(0);
}

static Value fill(StringRef callee, int64_t size, Location loc,
                  OpBuilder &builder) {
  Type type = builder.getI64Type();
  CallBuilder call(builder, loc, callee);
  call.integers("size", {size}).literal("dtype", TypeAttr::get(type));
  call.literal("device", aten::DeviceAttr::get(builder.getContext(), "cpu"));
  return call.create({RankedTensorType::get({size}, type)}).getResult(0);
}

//===----------------------------------------------------------------------===//
// Orders of elements
//===----------------------------------------------------------------------===//

/// Returns [batch, heads, tokens, depth] as [all tokens, heads, depth].
static Value toTokens(Value value, OpBuilder &builder) {
  ArrayRef<int64_t> s = getTensorType(value).getShape();
  Value rows =
      arrange(permute(value, kTokenMajor, builder), {0, 1, 2, 3}, builder);
  return view(rows, {s[0] * s[2], s[1], s[3]}, builder);
}

/// Does the reverse of `toTokens`.
static Value fromTokens(Value value, int64_t batch, OpBuilder &builder) {
  ArrayRef<int64_t> s = getTensorType(value).getShape();
  Value rows = view(value, {batch, s[0] / batch, s[1], s[2]}, builder);
  return permute(rows, kTokenMajor, builder);
}

/// Returns [blocks, heads, 2 * kBlock, depth]: each block of tokens, and the
/// one before it in front. The first block has zeros before it.
static Value toPairs(Value tokens, OpBuilder &builder) {
  ArrayRef<int64_t> s = getTensorType(tokens).getShape();
  Value padded = pad(tokens, {0, 0, 0, 0, kBlock, 0}, 0,
                     {s[0] + kBlock, s[1], s[2]}, builder);
  CallBuilder unfold(builder, tokens.getLoc(), "aten.unfold.default");
  unfold.tensor("self", padded).integer("dimension", 0);
  unfold.integer("size", 2 * kBlock).integer("step", kBlock);
  Value pairs =
      createLike(unfold, padded, {s[0] / kBlock, s[1], s[2], 2 * kBlock});
  return permute(pairs, {0, 1, 3, 2}, builder);
}

/// Returns the gradient of the operand of `toPairs`, from its result's.
static Value sumPairs(Value pairs, OpBuilder &builder) {
  ArrayRef<int64_t> s = getTensorType(pairs).getShape();
  Value before = toTokens(slice(pairs, 2, 0, kBlock, builder), builder);
  Value own = toTokens(slice(pairs, 2, kBlock, 2 * kBlock, builder), builder);
  // A block is before the next one.
  Value moved = pad(before, {0, 0, 0, 0, -kBlock, kBlock}, 0,
                    {s[0] * kBlock, s[1], s[3]}, builder);
  return add(own, moved, builder);
}

//===----------------------------------------------------------------------===//
// Documents
//===----------------------------------------------------------------------===//

static int64_t countTokens(Value documents) {
  return getTensorType(documents).getNumElements();
}

/// Returns the most sequences, if each document can be one.
static std::optional<int64_t> countSequences(Value documents,
                                             const DocumentOrder &order) {
  int64_t rows = getTensorType(documents).getDimSize(0);
  if (!order.most ||
      *order.most > countTokens(documents) / (kTokensPerDocument * rows))
    return std::nullopt;
  return *order.most * rows;
}

/// Returns whether each token is the first of its document and row.
static Value findStarts(Value documents, OpBuilder &builder) {
  ArrayRef<int64_t> s = getTensorType(documents).getShape();
  Value later = slice(documents, 1, 1, s[1], builder),
        before = slice(documents, 1, 0, s[1] - 1, builder);
  Value differs =
      compare("aten.ne.Tensor", later, before, {s[0], s[1] - 1}, builder);
  return view(pad(differs, {1, 0}, 1, s, builder), {s[0] * s[1]}, builder);
}

/// Returns whether each token is of a document of kBlock tokens or more.
/// `numbers` has that of its document.
static Value findLong(Value numbers, OpBuilder &builder) {
  int64_t tokens = countTokens(numbers);
  Location loc = numbers.getLoc();
  CallBuilder count(builder, loc, "aten.scatter_add.default");
  count.tensor("self", fill("aten.zeros.default", tokens + 1, loc, builder));
  count.integer("dim", 0).tensor("index", numbers);
  count.tensor("src", fill("aten.ones.default", tokens, loc, builder));
  Value counts = createLike(count, numbers, {tokens + 1});
  CallBuilder gather(builder, loc, "aten.gather.default");
  gather.tensor("self", counts).integer("dim", 0).tensor("index", numbers);
  Value lengths = createLike(gather, numbers, {tokens});
  return compareWith("aten.ge.Scalar", lengths, kBlock, builder);
}

/// Returns the first tokens of sequences, from whether each token is one: a
/// long document with the short ones that follow up to the next block, or the
/// short ones of a block. There is one at the most for each first token of a
/// block, as a long document covers one of these.
static Value cutAtLong(Value starts, Value isLong, OpBuilder &builder) {
  int64_t tokens = countTokens(starts);
  Value places = makeRange(0, tokens, starts.getLoc(), builder);
  CallBuilder remainder(builder, starts.getLoc(), "aten.remainder.Scalar");
  remainder.tensor("self", places).integer("other", kBlock);
  Value inBlock = createLike(remainder, places, {tokens});
  Value isFirst = compareWith("aten.eq.Scalar", inBlock, 0, builder);
  return choose(isLong, starts, isFirst, builder);
}

/// Returns the first tokens of `sequences` sequences, and the end of the last,
/// from the number of each token's. Sequences that are not there are empty.
static Value findBounds(Value numbers, int64_t sequences, OpBuilder &builder) {
  int64_t tokens = countTokens(numbers);
  Value ends = makeRange(0, sequences + 1, numbers.getLoc(), builder);
  Value isBefore =
      compare("aten.le.Tensor", view(numbers, {1, tokens}, builder),
              view(ends, {sequences + 1, 1}, builder), {sequences + 1, tokens},
              builder);
  Type type = builder.getI32Type();
  CallBuilder sum(builder, numbers.getLoc(), "aten.sum.dim_IntList");
  sum.tensor("self", isBefore).integers("dim", {1});
  sum.literal("dtype", TypeAttr::get(type));
  return sum.create({RankedTensorType::get({sequences + 1}, type)})
      .getResult(0);
}

Layout Flattener::getLayout(CallOp call, OpBuilder &builder) {
  Value documents = getTensor(call, "documents");
  std::pair<Value, Type> key{getSourceOfRows(documents), documents.getType()};
  auto found = layouts.find(key);
  if (found != layouts.end())
    return found->second;
  DocumentOrder order =
      *findDocumentOrder(documents, getTensor(call, "positions"));
  int64_t tokens = countTokens(documents);
  Value starts = findStarts(documents, builder);
  Layout layout;
  layout.longest = getTensorType(documents).getDimSize(1);
  layout.numbers = sumFromLeft(starts, builder);
  if (std::optional<int64_t> most = countSequences(documents, order)) {
    layout.bounds = findBounds(layout.numbers, *most, builder);
  } else {
    Value isLong = findLong(layout.numbers, builder);
    Value firsts = cutAtLong(starts, isLong, builder);
    layout.bounds =
        findBounds(sumFromLeft(firsts, builder), tokens / kBlock, builder);
    layout.isLong = view(isLong, {tokens, 1, 1}, builder);
  }
  return layouts[key] = layout;
}

/// Returns the bias [blocks, heads, kBlock, 2 * kBlock] of pairs of blocks.
Value Flattener::getBias(const Layout &layout, Type type,
                         ArrayRef<int64_t> shape, OpBuilder &builder) {
  Value &bias = biases[{layout.numbers, type}];
  if (!bias) {
    int64_t tokens = countTokens(layout.numbers), blocks = tokens / kBlock;
    Location loc = layout.numbers.getLoc();
    // Numbers are from 1 on, so that zeros are of no document.
    Value padded =
        pad(layout.numbers, {kBlock, 0}, 0, {tokens + kBlock}, builder);
    CallBuilder unfold(builder, loc, "aten.unfold.default");
    unfold.tensor("self", padded).integer("dimension", 0);
    unfold.integer("size", 2 * kBlock).integer("step", kBlock);
    Value keys = createLike(unfold, padded, {blocks, 2 * kBlock});
    SmallVector<int64_t> each{blocks, 1, kBlock, 2 * kBlock};
    Value same = compare(
        "aten.eq.Tensor", view(layout.numbers, {blocks, 1, kBlock, 1}, builder),
        view(keys, {blocks, 1, 1, 2 * kBlock}, builder), each, builder);
    Value before = compare(
        "aten.le.Tensor",
        view(makeRange(0, 2 * kBlock, loc, builder), {1, 2 * kBlock}, builder),
        view(makeRange(kBlock, 2 * kBlock, loc, builder), {kBlock, 1}, builder),
        {kBlock, 2 * kBlock}, builder);
    CallBuilder both(builder, loc, "aten.bitwise_and.Tensor");
    both.tensor("self", same).tensor("other", before);
    bias = makeBias(both.create({same.getType()}).getResult(0), type, builder);
  }
  CallBuilder expand(builder, bias.getLoc(), "aten.expand.default");
  expand.tensor("self", bias).integers("size", shape);
  return createLike(expand, bias, shape);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

bool Flattener::suits(CallOp call) const {
  if (!hasFlash || !isPackedAttention(call))
    return false;
  Value query = getTensor(call, "query"), key = getTensor(call, "key"),
        value = getTensor(call, "value"),
        documents = getTensor(call, "documents");
  ArrayRef<int64_t> q = getTensorType(query).getShape(),
                    k = getTensorType(key).getShape();
  Type type = getTensorType(query).getElementType();
  bool fits = getTensorType(key) == getTensorType(value) && k.size() == 4 &&
              getTensorType(key).getElementType() == type && k[0] == q[0] &&
              k[2] == q[2] && k[3] == q[3] && k[1] > 0 && q[1] > 0 &&
              q[1] % k[1] == 0;
  bool hasKernel = (type.isBF16() || type.isF16()) && q[3] > 0 &&
                   q[3] % kAlignment == 0 && q[3] <= kGreatestFlashHead;
  // Bounds are in i32.
  bool isSmall = q[2] > 1 && q[0] > 0 &&
                 q[0] * q[2] <= std::numeric_limits<int32_t>::max();
  if (!fits || !hasKernel || !isSmall)
    return false;
  std::optional<DocumentOrder> order =
      findDocumentOrder(documents, getTensor(call, "positions"));
  return order && (countSequences(documents, *order) ||
                   (q[2] % kBlock == 0 && q[2] >= kFewestBlocks * kBlock));
}

static FlashAttention getSequences(const Layout &layout, CallOp call,
                                   OpBuilder &builder) {
  return {toTokens(getTensor(call, "query"), builder),
          toTokens(getTensor(call, "key"), builder),
          toTokens(getTensor(call, "value"), builder),
          layout.bounds,
          layout.longest,
          call.getArgument("scale")};
}

/// Returns the attention of the same tokens in blocks, each of which has the
/// keys of the block before it, too.
EfficientAttention Flattener::getBlocks(const Layout &layout,
                                        const FlashAttention &all,
                                        OpBuilder &builder) {
  Value query =
      fromTokens(all.query, countTokens(layout.numbers) / kBlock, builder);
  ArrayRef<int64_t> q = getTensorType(query).getShape();
  int64_t times = q[1] / getTensorType(all.key).getDimSize(1);
  Type type = getTensorType(query).getElementType();
  Value bias = getBias(layout, type, {q[0], q[1], kBlock, 2 * kBlock}, builder);
  return {query,
          repeatHeads(toPairs(all.key, builder), times, builder),
          repeatHeads(toPairs(all.value, builder), times, builder),
          bias,
          /*isCausal=*/false,
          all.scale};
}

void Flattener::forward(CallOp call, bool hasBackward) {
  OpBuilder builder(call);
  Forward made{getLayout(call, builder), {}, {}};
  FlashAttention sequences = getSequences(made.layout, call, builder);
  auto keepChoice = [&](CallOp attention) {
    if (std::optional<bool> given = getRecompute(call))
      setRecompute(attention, *given);
    return attention;
  };
  CallOp flash = keepChoice(sequences.forward(call.getLoc(), builder));
  made.flash = {flash.getResult(1), flash.getResult(2), flash.getResult(3)};
  Value out = flash.getResult(0);
  if (made.layout.isLong) {
    EfficientAttention blocks = getBlocks(made.layout, sequences, builder);
    CallOp efficient =
        keepChoice(blocks.forward(hasBackward, call.getLoc(), builder));
    made.blocks = {efficient.getResult(1), efficient.getResult(2),
                   efficient.getResult(3)};
    out = choose(made.layout.isLong, out,
                 toTokens(efficient.getResult(0), builder), builder);
  }
  out =
      fromTokens(out, getTensorType(call.getResult(0)).getDimSize(0), builder);
  SmallVector<int64_t> order = getOrder(call);
  if (!llvm::equal(order, kTokenMajor))
    out = arrange(out, order, builder);
  call.getResult(0).replaceAllUsesWith(out);
  forwards[call] = made;
}

void Flattener::backward(CallOp call, CallOp forward) {
  OpBuilder builder(call);
  const Forward &made = forwards.lookup(forward);
  const Layout &layout = made.layout;
  int64_t batch = getTensorType(call.getResult(0)).getDimSize(0);
  Value grad = toTokens(getTensor(call, "grad_out"), builder),
        out = toTokens(getTensor(call, "out"), builder);
  FlashAttention sequences = getSequences(layout, call, builder);
  Value gradOfLong = grad, none;
  if (layout.isLong) {
    none = makeNumber(0, getTensorType(grad).getElementType(), call.getLoc(),
                      builder);
    gradOfLong = choose(layout.isLong, grad, none, builder);
  }
  CallOp flash =
      sequences.backward(gradOfLong, out, made.flash, call.getLoc(), builder);
  SmallVector<Value> gradients(flash.getResults());
  if (layout.isLong) {
    EfficientAttention blocks = getBlocks(layout, sequences, builder);
    int64_t count = countTokens(layout.numbers) / kBlock;
    Value gradOfShort = choose(layout.isLong, none, grad, builder);
    CallOp efficient = blocks.backward(fromTokens(gradOfShort, count, builder),
                                       fromTokens(out, count, builder),
                                       made.blocks, call.getLoc(), builder);
    int64_t groups = getTensorType(sequences.key).getDimSize(1);
    for (unsigned i = 0; i < 3; ++i) {
      Value part = efficient.getResult(i);
      int64_t times = i == 0 ? 1 : getTensorType(part).getDimSize(1) / groups;
      part = i == 0 ? toTokens(part, builder)
                    : sumPairs(sumHeads(part, times, builder), builder);
      gradients[i] = add(gradients[i], part, builder);
    }
  }
  for (auto [before, after] : llvm::zip_equal(call.getResults(), gradients))
    before.replaceAllUsesWith(fromTokens(after, batch, builder));
  call.erase();
}

/// Returns the backward passes that read `saved`, or nothing if another
/// operation does.
static std::optional<SmallVector<CallOp>>
findBackwards(CallOp forward, ArrayRef<CallOp> backwards) {
  SmallVector<CallOp> found;
  for (CallOp call : backwards)
    if (getForward(getTensor(call, "logsumexp")) == forward)
      found.push_back(call);
  SmallVector<Value> worklist{forward.getResult(1)};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (llvm::is_contained(found, user))
        continue;
      auto call = dyn_cast<CallOp>(user);
      if (!call || call.getNumResults() != 1 ||
          getForward(call.getResult(0)) != forward)
        return std::nullopt;
      worklist.push_back(call.getResult(0));
    }
  return found;
}

/// Returns whether a backward pass is that of `forward`, with its operands.
static bool isBackwardOf(CallOp call, CallOp forward) {
  for (StringRef name : {"query", "key", "value"})
    if (!getTensor(call, name) ||
        getTensor(call, name).getType() != getTensor(forward, name).getType())
      return false;
  Type type = getTensor(forward, "query").getType();
  for (StringRef name : {"grad_out", "out"})
    if (!getTensor(call, name) || getTensor(call, name).getType() != type)
      return false;
  return isPackedAttention(call) &&
         llvm::all_of(ArrayRef<StringRef>{"documents", "positions"},
                      [&](StringRef name) {
                        Value own = getTensor(call, name),
                              other = getTensor(forward, name);
                        return getSourceOfRows(own) == getSourceOfRows(other);
                      });
}

void fcdp::flattenPackedAttention(Operation *step, double computeCapability) {
  SmallVector<CallOp> forwards, backwards;
  step->walk([&](CallOp call) {
    if (call.getCallee() == kPackedForward)
      forwards.push_back(call);
    else if (call.getCallee() == kPackedBackward)
      backwards.push_back(call);
  });
  Flattener flattener(computeCapability);
  llvm::MapVector<Operation *, SmallVector<CallOp>> chosen;
  for (CallOp call : forwards) {
    if (!flattener.suits(call))
      continue;
    std::optional<SmallVector<CallOp>> own = findBackwards(call, backwards);
    if (own && llvm::all_of(*own, [&](CallOp backward) {
          return isBackwardOf(backward, call);
        }))
      chosen[call] = *own;
  }
  for (auto &[call, own] : chosen)
    flattener.forward(cast<CallOp>(call), /*hasBackward=*/!own.empty());
  for (auto &[call, own] : chosen) {
    for (CallOp backward : own)
      flattener.backward(backward, cast<CallOp>(call));
    eraseSaved(cast<CallOp>(call).getResult(1));
    call->erase();
  }
}
