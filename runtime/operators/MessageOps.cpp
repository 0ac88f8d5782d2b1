// SPDX-License-Identifier: Apache-2.0

#include "operators/MessageOps.h"
#include "plan/StatePlaces.h"

namespace fcdp {

namespace {

WireCode toWireCode(plan::Wire wire) {
  switch (wire) {
  case plan::Wire::raw:
    return WireCode::Raw;
  case plan::Wire::delta:
    return WireCode::Delta;
  case plan::Wire::coded:
    return WireCode::Coded;
  case plan::Wire::int8:
    return WireCode::Int8;
  case plan::Wire::int4:
    return WireCode::Int4;
  }
  return WireCode::Raw;
}

/// A gather that sends differences from the values that the bucket's last
/// gather sent. Used by the issuing thread only, as is the class below.
class DeltaGather final : public PreparedOp {
public:
  DeltaGather(const plan::AllGatherT &op, const char *what, StepState &state)
      : gathers(state.gathers[op.bucket]),
        collective(describe(op, what, state)) {
    const plan::BucketT &bucket = *state.plan.buckets[op.bucket];
    collective.inType = collective.outType = toDType(bucket.wire);
    collective.message.code = toWireCode(op.wire);
    collective.message.memory = state.address(*op.messages);
    collective.message.reference =
        state.address(findState(bucket, plan::StateRole::cache)->buf());
  }
  void run(StepState &state) override {
    collective.message.generation = gathers++;
    state.backend.allGather(collective);
  }

private:
  uint64_t &gathers;
  Collective collective;
};

/// Returns the residual of the bucket's messages, or null if they are exact.
float *findResidual(const plan::ReduceScatterT &op, StepState &state) {
  if (op.wire != plan::Wire::int8 && op.wire != plan::Wire::int4)
    return nullptr;
  const plan::State *residual =
      findState(*state.plan.buckets[op.bucket], plan::StateRole::residual);
  return reinterpret_cast<float *>(state.address(residual->buf()));
}

class CodedReduction final : public PreparedOp {
public:
  CodedReduction(const plan::ReduceScatterT &op, const char *what,
                 StepState &state)
      : padding(paddingOfSlice(state.plan, op.bucket, state.place.local)),
        collective(describe(op, what, state)) {
    collective.message.code = toWireCode(op.wire);
    collective.message.memory = state.address(*op.messages);
    collective.message.residual = findResidual(op, state);
    collective.message.padding = padding.data();
    collective.message.numPaddings = padding.size();
  }
  void run(StepState &state) override {
    state.backend.reduceScatter(collective);
  }

private:
  const std::vector<PaddingRange> padding;
  Collective collective;
};

} // namespace

PreparedOpPtr prepareWithMessages(const plan::AllGatherT &op, const char *what,
                                  StepState &state) {
  return std::make_unique<DeltaGather>(op, what, state);
}

PreparedOpPtr prepareWithMessages(const plan::ReduceScatterT &op,
                                  const char *what, StepState &state) {
  return std::make_unique<CodedReduction>(op, what, state);
}

} // namespace fcdp
