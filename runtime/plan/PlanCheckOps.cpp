// SPDX-License-Identifier: Apache-2.0
//
// Checks a plan's operations.
#include "plan/PlanCheck.h"

#include "plan/StatePlaces.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace fcdp {

namespace {

/// Checks one operation.
class OpChecker {
public:
  OpChecker(const StepPlan &plan, size_t index, const RegionVisitor &visit)
      : plan(plan), visit(visit), where(at("ops", index) + ".body") {}

  template <typename Op>
  void operator()(const Op &op) const {
    // These fields have one meaning in all operations.
    if constexpr (requires { op.bucket; })
      if (std::optional<uint32_t> bucket = op.bucket)
        checkIndex({where, ".bucket"}, *bucket, plan.buckets.size(), "buckets");
    if constexpr (requires { op.slot; })
      slot(".slot", op.slot);
    if constexpr (requires { op.free; })
      for (uint32_t one : op.free)
        transient(".free", one, "dropped");
    check(op);
  }

private:
  void check(const plan::AtenCallT &op) const {
    for (size_t i = 0; i < op.args.size(); ++i)
      argument(*op.args[i], i);
    for (uint32_t one : op.unread)
      checkIndex({where, ".unread"}, one, op.args.size(), "arguments");
    for (int32_t one : op.results)
      if (isSlot(".results", one))
        transient(".results", one, "a result");
    checkKernelCall(op);
  }
  void checkKernelCall(const plan::AtenCallT &op) const;
  void check(const plan::WriteBufferT &op) const {
    checkIndex({where, ".buffer"}, op.buffer, plan.buffers.size(), "buffers");
    if (!plan.buffers[op.buffer]->mutable_)
      failCheck({where, ".buffer"}, "'", plan.buffers[op.buffer]->name,
                "' is not mutable");
  }
  void check(const plan::LossT &) const {}
  void check(const plan::CastT &op) const {
    flat(".in", op.in, op.elements, op.inType);
    flat(".out", op.out, op.elements, op.outType);
  }
  void check(const plan::PackBucketT &op) const {
    for (const plan::PackMember &member : op.members) {
      slot(".members", member.source());
      slot(".members", member.planned());
      if (plan.slots[member.planned()]->kind != plan::SlotKind::planned)
        failCheck({where, ".members"}, "slot ", member.planned(),
                  " is not planned");
    }
    for (const plan::Buf &buf : op.zero)
      region(".zero", buf);
    if (plan.weightsLoss() != (op.whole != nullptr))
      failCheck({where, ".whole"}, "expected it if the plan has 'loss_weight', "
                                   "and only then");
    if (op.whole)
      region(".whole", *op.whole);
  }
  void check(const plan::AccumulateT &op) const {
    flat(".in", op.in, op.elements, plan::DType::f32);
    flat(".out", op.out, op.elements, plan::DType::f32);
  }
  void check(const plan::AddT &op) const {
    flat(".sum", op.sum, op.elements, plan::DType::f32);
    flat(".in", op.in, op.elements, plan::DType::f32);
    flat(".out", op.out, op.elements, plan::DType::f32);
  }
  void check(const plan::UnscaleGradientsT &) const {}
  void check(const plan::ClipGradientsT &op) const {
    if (!(op.maxNorm > 0))
      failCheck({where, ".max_norm"}, "expected a positive number");
  }
  void check(const plan::ShardUpdateT &op) const;
  std::vector<const plan::State *>
  checkUpdate(const plan::ShardUpdateT &op) const;
  void check(const plan::StoreGradientT &op) const {
    copy(op.grad, op.gradOut, 1, ", the bytes of 'grad'");
    hostRegion(".grad_out", op.gradOut);
    if ((op.shard != nullptr) != (op.shardOut != nullptr))
      failCheck({where, ".shard_out"}, "expected it with 'shard'");
    if (!op.shard)
      return;
    copy(*op.shard, *op.shardOut, 1, ", the bytes of 'shard'");
    hostRegion(".shard_out", *op.shardOut);
  }
  void check(const plan::HostUpdateT &op) const;
  void checkPieces(const plan::ShardUpdateT &op,
                   std::span<const plan::State *const> updated) const;
  void checkWhole(const plan::ParameterT &parameter,
                  const plan::BucketT &bucket) const;
  void checkBlocks(const plan::ParameterT &parameter) const;
  void checkOuter(uint32_t bucket, uint64_t elements) const;
  void check(const plan::OuterDifferenceT &op) const {
    checkOuter(op.bucket, op.elements);
    flat(".out", op.out, op.elements, op.type);
  }
  void check(const plan::OuterUpdateT &op) const {
    checkOuter(op.bucket, op.elements);
    flat(".in", op.in, op.elements, op.type);
    if (double mean = 1.0 / plan.nodes; op.scale != mean)
      failCheck({where, ".scale"}, "expected ", mean, ", 1 / nodes, got ",
                op.scale);
  }
  void check(const plan::AllGatherT &op) const;
  void check(const plan::ReduceScatterT &op) const;
  void check(const plan::CacheCopyT &op) const {
    copy(op.in, op.out, 1, ", the bytes of 'in'");
    bool readsFile = op.in.arena() == plan::Arena::file;
    bool writesFile = op.out.arena() == plan::Arena::file;
    if (readsFile || writesFile)
      checkFileCopy(op, readsFile ? op.in : op.out, readsFile && writesFile);
  }
  void checkFileCopy(const plan::CacheCopyT &op, const plan::Buf &inFile,
                     bool isWithinFiles) const;
  void check(const plan::StoreValueT &op) const {
    transient(".slot", op.slot, "stored");
    hostRegion(".out", op.out);
  }
  void check(const plan::DropValueT &) const {}
  void check(const plan::LoadValueT &op) const {
    hostRegion(".in", op.in);
    const plan::SlotT &target = *plan.slots[op.slot];
    if (target.kind != plan::SlotKind::planned)
      failCheck({where, ".slot"}, "slot ", op.slot, " is not planned");
    if (target.buf->bytes() != op.in.bytes())
      failCheck({where, ".in.bytes"}, "expected ", target.buf->bytes(),
                ", the bytes of slot ", op.slot, ", got ", op.in.bytes());
  }
  void check(const plan::EventT &op) const {
    checkIndex({where, ".event"}, op.event, plan.numEvents, "events");
  }
  void argument(const plan::ArgumentT &argument, size_t index) const;

  void region(const char *field, const plan::Buf &buf) const {
    checkBuf(plan, {where, field}, buf);
    visit(buf);
  }
  void hostRegion(const char *field, const plan::Buf &buf) const {
    region(field, buf);
    if (buf.arena() != plan::Arena::host)
      failCheck({where, field}, "expected host memory, got '",
                EnumNameArena(buf.arena()), "'");
  }
  void flat(const char *field, const plan::Buf &buf, uint64_t elements,
            plan::DType dtype) const {
    checkFlat(plan, {where, field}, buf, elements, dtype);
    visit(buf);
  }
  /// `out` is `count` times as large as `in`.
  void copy(const plan::Buf &in, const plan::Buf &out, uint64_t count,
            const char *what) const {
    region(".in", in);
    region(".out", out);
    if (in.bytes() * count != out.bytes())
      failCheck({where, ".out.bytes"}, "expected ", in.bytes() * count, what,
                ", got ", out.bytes());
  }
  void slot(const char *field, uint64_t index) const {
    checkIndex({where, field}, index, plan.slots.size(), "slots");
    if (plan.slots[index]->kind == plan::SlotKind::planned)
      visit(*plan.slots[index]->buf);
  }
  void transient(const char *field, uint64_t index, const char *purpose) const {
    slot(field, index);
    if (plan.slots[index]->kind != plan::SlotKind::transient)
      failCheck({where, field}, "slot ", index,
                " is not transient, so it cannot be ", purpose);
  }
  /// Returns false for -1, which means no slot. Refuses smaller numbers.
  bool isSlot(const char *field, int32_t index) const {
    if (index < -1)
      failCheck({where, field}, "expected an integer of at least -1, got ",
                index);
    return index != -1;
  }

  const StepPlan &plan;
  const RegionVisitor &visit;
  const std::string where;
};

/// Checks what the kernel's function relies on, but for the tensors' sizes.
void OpChecker::checkKernelCall(const plan::AtenCallT &op) const {
  if (op.callee != "fcdp::kernel")
    return;
  auto found = std::find_if(
      plan.kernels.begin(), plan.kernels.end(),
      [&](const auto &kernel) { return kernel->name == op.overload; });
  if (found == plan.kernels.end())
    failCheck({where, ".overload"}, "expected the name of a kernel, got '",
              op.overload, "'");
  const plan::KernelT &kernel = **found;
  if (op.args.size() != 1 || op.args[0]->kind != plan::ArgumentKind::tensors ||
      op.args[0]->slots.size() != kernel.operands.size())
    failCheck({where, ".args"}, "expected one list of ", kernel.operands.size(),
              " tensors");
  for (int32_t slot : op.args[0]->slots)
    if (slot < 0)
      failCheck({where, ".args"}, "expected tensors, got none");
  if (op.results.size() != kernel.results.size())
    failCheck({where, ".results"}, "expected ", kernel.results.size(),
              " results, got ", op.results.size());
}

void OpChecker::argument(const plan::ArgumentT &argument, size_t index) const {
  using Kind = plan::ArgumentKind;
  auto fail = [&](const char *field, const auto &...message) {
    failCheck(where + at(".args", index) + field, message...);
  };
  auto needsOne = [&](const char *field, size_t count) {
    if (count != 1)
      fail(field, "expected one value, got ", count);
  };
  for (int32_t one : argument.slots)
    if (isSlot(".args", one))
      slot(".args", one);
  if (argument.kind == Kind::boolean || argument.kind == Kind::booleans)
    for (int64_t value : argument.integers)
      if (value != 0 && value != 1)
        fail(".integers", "expected 0 or 1, got ", value);
  switch (argument.kind) {
  case Kind::tensor:
    needsOne(".slots", argument.slots.size());
    if (argument.slots[0] < 0)
      fail(".slots", "expected an integer of at least 0, got ",
           argument.slots[0]);
    return;
  case Kind::boolean:
  case Kind::integer:
    return needsOne(".integers", argument.integers.size());
  case Kind::float_number:
    return needsOne(".floats", argument.floats.size());
  case Kind::dtype:
    return needsOne(".dtype", argument.dtype.has_value());
  case Kind::layout:
    return needsOne(".layout", argument.layout.has_value());
  case Kind::memory_format:
    return needsOne(".memory_format", argument.memoryFormat.has_value());
  case Kind::none:
  case Kind::tensors:
  case Kind::integers:
  case Kind::booleans:
  case Kind::float_numbers:
  case Kind::text:
  case Kind::device:
    return; // any value will do
  }
}

/// Checks an update but for the places of its states, which it returns.
std::vector<const plan::State *>
OpChecker::checkUpdate(const plan::ShardUpdateT &op) const {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  auto needs = [&](plan::StateRole role) {
    if (!findState(bucket, role))
      failCheck(where, "bucket '", bucket.name, "' has no state '",
                plan::EnumNameStateRole(role), "'");
  };
  if (!bucket.trainable)
    failCheck(where, "bucket '", bucket.name, "' is frozen");
  needs(plan::StateRole::grad);
  const plan::OptimizerUnion &optimizer = plan.optimizerOf(op);
  const plan::OptimizerFacts facts = factsOf(optimizer);
  for (plan::StateRole role : facts.states)
    needs(role);
  if (double base = plan.learningRate(), rate = learningRate(optimizer);
      base == 0 && rate != 0)
    failCheck(where, "expected a learning rate of 0, as the plan's, got ",
              rate);
  bool hasBlocks = facts.layout == plan::MemberLayout::blocks;
  bool isOwned = facts.layout == plan::MemberLayout::owned;
  if (hasBlocks && bucket.shardElements % kStateBlock != 0)
    failCheck(where, "expected shards of whole blocks of ", kStateBlock,
              " elements, got ", bucket.shardElements);
  for (const auto &parameter : plan.parameters) {
    if (parameter->bucket != op.bucket)
      continue;
    if (isOwned && parameter->shape.size() != 2)
      failCheck(where, "expected parameters of two dimensions, got '",
                parameter->names[0], "' of shape ", toString(parameter->shape));
    if (isOwned || facts.layout == plan::MemberLayout::whole)
      checkWhole(*parameter, bucket);
    if (hasBlocks)
      checkBlocks(*parameter);
  }
  std::vector<const plan::State *> updated;
  for (plan::StateRole role : facts.states)
    updated.push_back(findState(bucket, role));
  if (const plan::State *master = findState(bucket, plan::StateRole::master))
    updated.push_back(master);
  return updated;
}

void OpChecker::check(const plan::ShardUpdateT &op) const {
  checkPieces(op, checkUpdate(op));
}

/// Checks an update on the host. Its states are in the host arena.
void OpChecker::check(const plan::HostUpdateT &op) const {
  checkIndex({where, ".update.bucket"}, op.update->bucket, plan.buckets.size(),
             "buckets");
  const plan::ShardUpdateT &update = *op.update;
  const plan::BucketT &bucket = *plan.buckets[update.bucket];
  if (op.bucket != update.bucket)
    failCheck({where, ".update.bucket"}, "expected ", op.bucket, ", got ",
              update.bucket);
  if (update.begin >= update.end || update.end > bucket.shardElements)
    failCheck({where, ".update.end"}, "expected a piece of the ",
              bucket.shardElements, " elements of the shard of bucket '",
              bucket.name, "', got ", update.begin, " to ", update.end);
  if (!update.states.empty())
    failCheck({where, ".update.states"}, "expected no pieces, got ",
              update.states.size());
  const uint64_t elements = update.end - update.begin;
  for (const plan::State *state : checkUpdate(update)) {
    const char *name = plan::EnumNameStateRole(state->role());
    if (state->buf().arena() != plan::Arena::host)
      failCheck(where, "expected the state '", name, "' of bucket '",
                bucket.name, "' in host memory");
    const uint64_t all =
        state->buf().bytes() / byteSize(toDType(state->dtype()));
    // A state is cut in proportion to the shard.
    const uint64_t each = all == 0 ? 0 : bucket.shardElements / all;
    if (isFactor(state->role()) || each == 0 || update.begin % each != 0 ||
        elements % each != 0)
      failCheck({where, ".update"}, "expected whole states '", name,
                "' of bucket '", bucket.name, "', got those of elements ",
                update.begin, " to ", update.end);
  }
  flat(".grad", op.grad, elements, plan::DType::f32);
  hostRegion(".grad", op.grad);
  flat(".shard", op.shard, elements, bucket.storage);
  hostRegion(".shard", op.shard);
}

/// Checks that a copy to a file or from it is of whole blocks of a state.
void OpChecker::checkFileCopy(const plan::CacheCopyT &op,
                              const plan::Buf &inFile,
                              bool isWithinFiles) const {
  if (plan.target != plan::Target::cpu && !plan.fileWindow)
    failCheck(where,
              "expected a plan with 'file_window', through which a GPU's "
              "copies to files and from files pass");
  const uint64_t end = inFile.offset() + inFile.bytes();
  for (const plan::State &state : plan.buckets[op.bucket]->states) {
    const plan::Buf &whole = state.buf();
    const uint64_t last = whole.offset() + whole.bytes();
    if (whole.arena() == plan::Arena::file && !isWithinFiles &&
        whole.offset() <= inFile.offset() && end <= last &&
        (end == last || end % kFileBlock == 0))
      return;
  }
  failCheck(where, "expected a copy of blocks of ", kFileBlock,
            " bytes of a state in a file of bucket '",
            plan.buckets[op.bucket]->name, "', got bytes ", inFile.offset(),
            " to ", end);
}

/// Checks the pieces of states in other memory that an update changes.
void OpChecker::checkPieces(const plan::ShardUpdateT &op,
                            std::span<const plan::State *const> updated) const {
  const plan::BucketT &bucket = *plan.buckets[op.bucket];
  if (op.end == 0) {
    if (op.begin != 0 || !op.states.empty())
      failCheck({where, ".end"}, "expected the end of a piece, got 0");
    for (const plan::State *state : updated)
      if (state->buf().arena() != plan::Arena::device)
        failCheck(where, "expected the state '",
                  plan::EnumNameStateRole(state->role()), "' of bucket '",
                  bucket.name, "' on the device, or pieces of it");
    return;
  }
  if (op.begin >= op.end || op.end > bucket.shardElements)
    failCheck({where, ".end"}, "expected a piece of the ", bucket.shardElements,
              " elements of the shard of bucket '", bucket.name, "', got ",
              op.begin, " to ", op.end);
  if (op.states.size() != updated.size())
    failCheck({where, ".states"}, "expected ", updated.size(),
              " pieces of states, got ", op.states.size());
  const uint64_t elements = op.end - op.begin;
  const bool isWhole = elements == bucket.shardElements;
  for (size_t i = 0; i < updated.size(); ++i) {
    const plan::State &state = *updated[i];
    const uint64_t width = byteSize(toDType(state.dtype()));
    const uint64_t all = state.buf().bytes() / width;
    // A state is cut in proportion to the shard.
    const uint64_t each = all == 0 ? 1 : bucket.shardElements / all;
    const bool isCut = !isFactor(state.role()) && each != 0 &&
                       op.begin % each == 0 && elements % each == 0;
    if (!isWhole && !isCut)
      failCheck({where, ".states"}, "expected whole states '",
                plan::EnumNameStateRole(state.role()), "' of bucket '",
                bucket.name, "', got those of elements ", op.begin, " to ",
                op.end);
    flat(".states", op.states[i], isWhole ? all : elements / each,
         state.dtype());
  }
}

void OpChecker::checkBlocks(const plan::ParameterT &parameter) const {
  if (parameter.offsetElements % kStateBlock != 0 ||
      numElements(parameter.shape) % kStateBlock != 0)
    failCheck(where, "expected parameters of whole blocks of ", kStateBlock,
              " elements, got '", parameter.names[0], "' of shape ",
              toString(parameter.shape), " at ", parameter.offsetElements);
}

void OpChecker::checkWhole(const plan::ParameterT &parameter,
                           const plan::BucketT &bucket) const {
  uint64_t begin = parameter.offsetElements;
  uint64_t end = begin + numElements(parameter.shape);
  if (begin != end &&
      begin / bucket.shardElements != (end - 1) / bucket.shardElements)
    failCheck(where, "expected whole parameters in each shard, got '",
              parameter.names[0], "' at elements ", begin, " to ", end,
              " in shards of ", bucket.shardElements);
}

/// Checks the states of a bucket that outer steps synchronize.
void OpChecker::checkOuter(uint32_t index, uint64_t elements) const {
  const plan::BucketT &bucket = *plan.buckets[index];
  if (!plan.outer)
    failCheck(where, "expected 'outer' in the plan");
  bool needsMomentum = plan.outer->momentum != 0;
  if (!findState(bucket, plan::StateRole::outer) ||
      (needsMomentum && !findState(bucket, plan::StateRole::outer_momentum)))
    failCheck(where, "bucket '", bucket.name, "' has no state 'outer'",
              needsMomentum ? " and 'outer_momentum'" : "");
  if (elements != bucket.shardElements)
    failCheck({where, ".elements"}, "expected the ", bucket.shardElements,
              " elements of the shard of bucket '", bucket.name, "', got ",
              elements);
}

void OpChecker::check(const plan::AllGatherT &op) const {
  copy(op.in, op.out, plan.ranks(toAxis(op.axis)), ", one 'in' per rank");
  checkMessages(plan, where, op, visit);
}

void OpChecker::check(const plan::ReduceScatterT &op) const {
  uint64_t ranks = plan.ranks(toAxis(op.axis));
  if (op.elements % ranks != 0)
    failCheck({where, ".elements"}, "expected a multiple of ", ranks, ", got ",
              op.elements);
  flat(".in", op.in, op.elements, op.inType);
  flat(".out", op.out, op.elements / ranks, op.outType);
  checkMessages(plan, where, op, visit);
  if (op.scratch)
    flat(".scratch", *op.scratch, op.elements, op.inType);
  else if (ranks > 1)
    failCheck(where, "'scratch' is missing; a reduction over ", ranks,
              " ranks needs it");
}

} // namespace

void checkOp(const StepPlan &plan, size_t index, const RegionVisitor &visit) {
  plan::visit(plan.ops[index]->body, OpChecker(plan, index, visit));
}

/// Checks that all gathers over an axis are on one stream, and all reductions,
/// too: each has its own communicator.
void checkCommunicators(const StepPlan &plan) {
  std::map<std::pair<plan::OpBody, plan::Axis>, plan::Stream> streams;
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    plan::OpBody kind = plan.ops[i]->body.type;
    plan::visit(plan.ops[i]->body, [&](const auto &body) {
      if constexpr (requires { body.axis; }) {
        plan::Stream first =
            streams.emplace(std::pair(kind, body.axis), body.stream)
                .first->second;
        if (first != body.stream)
          failCheck(at("ops", i) + ".stream", "expected '",
                    EnumNameStream(first), "', as of the first ",
                    EnumNameOpBody(kind), " over this axis, got '",
                    EnumNameStream(body.stream), "'");
      }
    });
  }
}

static void checkOuter(const StepPlan &plan) {
  if (!plan.outer)
    return;
  const plan::OuterT &outer = *plan.outer;
  if (outer.every == 0 || outer.fragments == 0 || outer.fragments > outer.every)
    failCheck("outer.fragments", "expected from 1 to 'every', got ",
              outer.fragments, " of ", outer.every);
  for (auto [name, number] : {std::pair("outer.lr", outer.lr),
                              std::pair("outer.momentum", outer.momentum)})
    if (!std::isfinite(number) || number < 0)
      failCheck(name, "expected a finite number of at least 0, got ", number);
  if (plan.nodes < 2)
    failCheck("outer", "expected several nodes, got ", plan.nodes);
  if (outer.overlap && plan.numVariants() > 1)
    failCheck("outer.overlap", "expected a step of one shape, got ",
              plan.numVariants());
}

void checkSynchronization(const StepPlan &plan) {
  checkOuter(plan);
  uint32_t fragments = plan.outer ? plan.outer->fragments : 0;
  if (fragments > plan.functions.size())
    failCheck("outer.fragments", "expected a number up to that of the ",
              plan.functions.size(), " functions, got ", fragments);
  const plan::Role outer = plan.outerRole();
  std::set<std::pair<plan::Role, uint32_t>> others;
  for (const auto &function : plan.functions)
    if (StepFunction other = toStepFunction(*function);
        isOuter(other.role) &&
        (other.role != outer || other.number >= fragments))
      others.insert({other.role, other.number});
  for (const auto &[role, fragment] : others)
    failCheck("functions", "expected '", EnumNameRole(outer), "' of ",
              fragments, " fragments, as 'outer' says, got '",
              EnumNameRole(role), "' of fragment ", fragment);
}

} // namespace fcdp
