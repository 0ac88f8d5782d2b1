// SPDX-License-Identifier: Apache-2.0
//
// Updates states in host memory on the node's processors.
#include "operators/HostThreads.h"
#include "operators/PreparedOp.h"
#include "optimizers/GradientScale.h"
#include "optimizers/Optimizer.h"
#include "plan/StatePlaces.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>

namespace fcdp {

namespace {

/// The elements of a chunk. A piece of each tensor fits in the caches of a
/// core, so that memory is read and written once. A multiple of the blocks of
/// states in 8 bits, and of all vector lengths, so that bits do not depend on
/// it.
constexpr int64_t kChunk = 1 << 14;

/// Used by the issuing thread only.
class StoreGradient final : public PreparedOp {
public:
  StoreGradient(const plan::StoreGradientT &op, StepState &state)
      : stream(toStream(op.stream)), grad(state.address(op.grad)),
        gradOut(state.address(op.gradOut)), gradBytes(op.grad.bytes()) {
    if (!op.shard)
      return;
    shard = state.address(*op.shard);
    shardOut = state.address(*op.shardOut);
    shardBytes = op.shard->bytes();
  }
  void run(StepState &state) override {
    state.backend.copy(stream, gradOut, grad, gradBytes);
    if (shard)
      state.backend.copy(stream, shardOut, shard, shardBytes);
  }

private:
  StreamId stream;
  const std::byte *grad;
  std::byte *gradOut;
  uint64_t gradBytes;
  const std::byte *shard = nullptr;
  std::byte *shardOut = nullptr;
  uint64_t shardBytes = 0;
};

/// The issuing thread calls `run(StepState &)`, and a thread of the stream
/// `run()`, once for each of these calls. Beside a GPU, the issuing thread is a
/// step ahead.
class HostUpdate final : public PreparedOp, private HostTask {
public:
  HostUpdate(const plan::HostUpdateT &op, StepState &state)
      : op(op), update(*op.update), bucket(*state.plan.buckets[op.bucket]),
        settings(state.plan.optimizerOf(update)), stream(toStream(op.stream)),
        elements(int64_t(update.end - update.begin)),
        grad(over(op.grad, DType::F32, state)),
        shard(over(op.shard, toDType(bucket.storage), state)) {
    for (plan::StateRole role : factsOf(settings).states)
      states.push_back(pieceOf(role, state));
    if (findState(bucket, plan::StateRole::master))
      master = pieceOf(plan::StateRole::master, state);
    parameter = master.defined() ? master : shard;
    if (!state.hostThreads)
      state.hostThreads =
          std::make_shared<HostThreads>(size_t(at::get_num_threads()));
    threads = state.hostThreads;
    for (size_t i = 0; i < threads->size(); ++i)
      workers.push_back(std::make_unique<Worker>(*this, state));
    gradScale.emplace(update.gradScale, grad,
                      workers[0]->needs.dividesGradients &&
                          parameter.scalar_type() == at::kFloat);
    if (double base = state.plan.learningRate(); base != 0)
      rateFactor = learningRate(settings) / base;
    count = at::zeros({}, at::kFloat);
    cutChunks(state);
  }

  void run(StepState &state) override {
    // The pieces of a shard are one update. Only updates on the device read the
    // number as a tensor.
    UpdateState &updates = state.updates[op.bucket];
    if (!state.skipsUpdates && update.begin == 0)
      ++updates.number;
    if (state.skipsUpdates && !master.defined())
      return; // the shard is there as it was
    {
      std::lock_guard lock(mutex);
      issued.push_back({updates.number, state.learningRate * rateFactor,
                        state.skipsUpdates});
    }
    state.backend.call(stream, *this, /*bytes=*/0);
  }

private:
  /// The settings of one update.
  struct Settings {
    int64_t number;
    double rate;
    bool skips;
  };
  /// The memory and the optimizer of one thread.
  struct Worker {
    Worker(const HostUpdate &of, StepState &state)
        : memory(at::kCPU), optimizer(of.make(state, memory)),
          needs(optimizer->needs()) {
      if (needs.unit == UpdateNeeds::Unit::Parameter || needs.scratchBytes != 0)
        throw std::runtime_error("expected an optimizer that updates elements "
                                 "for an update on the host");
      UpdatePart whole;
      whole.parameter = of.parameter;
      for (const at::Tensor &one : of.states)
        whole.states.push_back(one);
      if (needs.unit == UpdateNeeds::Unit::Piece)
        pieces.emplace(whole,
                       at::isReducedFloatingType(of.parameter.scalar_type()),
                       needs.numMemories, memory);
      if (of.parameter.scalar_type() != at::kFloat)
        typed = at::zeros({kChunk}, of.parameter.scalar_type());
    }

    PieceMemory memory;
    std::unique_ptr<Optimizer> optimizer;
    UpdateNeeds needs;
    /// None if segments are updated as a whole.
    std::optional<PieceUpdate> pieces;
    /// The gradient in the type of the parameter, if that is not f32.
    at::Tensor typed;
  };

  static at::Tensor over(const plan::Buf &buf, DType type, StepState &state) {
    return tensorOver(state.address(buf),
                      {int64_t(buf.bytes() / byteSize(type))}, type);
  }
  /// Returns the updated elements of a state.
  at::Tensor pieceOf(plan::StateRole role, StepState &state) const {
    const plan::State *found = findState(bucket, role);
    if (!found)
      throw std::runtime_error("expected the states of the optimizer");
    return cutState(over(found->buf(), toDType(found->dtype()), state),
                    int64_t(bucket.shardElements), int64_t(update.begin),
                    elements);
  }
  std::unique_ptr<Optimizer> make(StepState &state, PieceMemory &memory) const {
    const OptimizedShard own{state.plan, op.bucket, parameter, memory};
    return plan::visit(
        settings, [&](const auto &table) { return makeOptimizer(table, own); });
  }

  void cutChunks(StepState &state) {
    const auto begin = int64_t(update.begin);
    for (UpdateSegment of : updateSegments(state.plan, op.bucket, state.place,
                                           weightDecay(settings))) {
      const int64_t end =
          std::min(of.begin + of.elements, begin + elements) - begin;
      for (int64_t at = std::max<int64_t>(of.begin - begin, 0); at < end;
           at += kChunk)
        addChunk(of, at, std::min(kChunk, end - at));
    }
  }

  void addChunk(const UpdateSegment &of, int64_t begin, int64_t size) {
    UpdatePart &chunk = chunks.emplace_back();
    chunk.segment = of;
    chunk.segment.begin = begin;
    chunk.segment.elements = size;
    chunk.parameter = parameter.narrow(0, begin, size);
    chunk.grad = chunk.sum = grad.narrow(0, begin, size);
    for (const at::Tensor &one : states)
      chunk.states.push_back(cutState(one, elements, begin, size));
    rounded.push_back(shard.narrow(0, begin, size));
  }

  void run() override {
    {
      std::lock_guard lock(mutex);
      current = issued.front();
      issued.pop_front();
    }
    *count.data_ptr<float>() = float(current.number);
    threads->run(chunks.size(), [&](size_t thread, size_t index) {
      if (!current.skips)
        updateChunk(*workers[thread], chunks[index]);
      if (master.defined())
        rounded[index].copy_(chunks[index].parameter);
    });
  }

  void updateChunk(Worker &worker, UpdatePart part) {
    gradScale->apply(part.grad);
    if (worker.typed.defined())
      part.grad =
          worker.typed.narrow(0, 0, part.segment.elements).copy_(part.grad);
    UpdateStep step{current.rate * part.segment.lrFactor, current.number, count,
                    gradScale->divisor(), noScratch};
    if (worker.pieces)
      worker.pieces->run(part, [&](const UpdatePart &piece) {
        worker.optimizer->update(piece, step);
      });
    else
      worker.optimizer->update(part, step);
  }

  const plan::HostUpdateT &op;
  const plan::ShardUpdateT &update;
  const plan::BucketT &bucket;
  const plan::OptimizerUnion &settings;
  const StreamId stream;
  const int64_t elements;
  const at::Tensor grad, shard, noScratch;
  at::Tensor master, parameter;
  PartTensors states;
  std::optional<GradientScale> gradScale;
  double rateFactor = 1;
  std::shared_ptr<HostThreads> threads;
  std::vector<std::unique_ptr<Worker>> workers;
  /// The parts that threads update, and the part of the new shard for each.
  std::vector<UpdatePart> chunks;
  std::vector<at::Tensor> rounded;
  /// The number of the update, as the optimizers' kernels read it.
  at::Tensor count;
  Settings current = {};
  std::mutex mutex;
  /// The settings of updates that have not begun. Guarded by the mutex.
  std::deque<Settings> issued;
};

} // namespace

PreparedOpPtr prepare(const plan::StoreGradientT &op, const char *,
                      StepState &state) {
  return std::make_unique<StoreGradient>(op, state);
}

PreparedOpPtr prepare(const plan::HostUpdateT &op, const char *,
                      StepState &state) {
  return std::make_unique<HostUpdate>(op, state);
}

std::optional<uint64_t> countBytes(const plan::StoreGradientT &op,
                                   const StepPlan &) {
  return op.grad.bytes() + (op.shard ? op.shard->bytes() : 0);
}

std::optional<uint64_t> countBytes(const plan::HostUpdateT &,
                                   const StepPlan &) {
  return {};
}

} // namespace fcdp
