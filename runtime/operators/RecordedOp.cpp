// SPDX-License-Identifier: Apache-2.0

#include "operators/RecordedOp.h"

namespace fcdp {

namespace {

/// Used by the issuing thread only, as is the class below.
class RecordedOp : public PreparedOp {
public:
  RecordedOp(std::unique_ptr<PreparedOp> inner, StreamId stream, size_t index,
             StepRecorder &recorder)
      : recorder(recorder), stream(stream), index(index),
        inner(std::move(inner)) {}

  void run(StepState &state) override {
    recorder.issue(stream, index);
    recorder.beginSpan(stream);
    inner->run(state);
    recorder.endSpan(stream);
  }

  std::unique_ptr<PreparedOp> takeInner() { return std::move(inner); }

protected:
  StepRecorder &recorder;
  const StreamId stream;
  const size_t index;

private:
  std::unique_ptr<PreparedOp> inner;
};

/// Returns "f32[64,128]", or "?" for a type that the compiler does not know.
std::string describe(const at::Tensor &tensor) {
  std::string text = "?";
  for (size_t type = 0; type < kNumDTypes; ++type)
    if (toScalarType(DType(type)) == tensor.scalar_type())
      text = name(DType(type));
  text += '[';
  for (int64_t dim = 0; dim < tensor.dim(); ++dim)
    text += (dim ? "," : "") + std::to_string(tensor.size(dim));
  return text + ']';
}

class RecordedCall final : public RecordedOp {
public:
  RecordedCall(std::unique_ptr<PreparedOp> inner, size_t index,
               StepRecorder &recorder, const plan::AtenCallT &call)
      : RecordedOp(std::move(inner), StreamId::Compute, index, recorder),
        call(call) {}

  void run(StepState &state) override {
    // The call may drop its operands.
    std::string &key = recorder.getKey(index);
    bool isFirst = key.empty();
    if (isFirst)
      key = describeOperands(state);
    RecordedOp::run(state);
    if (isFirst)
      key += describeResults(state);
  }

private:
  std::string describeOperands(StepState &state) const {
    std::string text = operatorName(call) + "(";
    const char *separator = "";
    auto add = [&](int64_t slot) {
      if (slot < 0 || !state.slots[slot].defined())
        return;
      text += separator + describe(state.slots[slot]);
      separator = ", ";
    };
    for (const auto &argument : call.args) {
      if (!call.functional.empty() && argument->name == "out")
        continue; // the place of the result, which comes below
      for (int64_t slot : argument->slots)
        add(slot);
    }
    return text + ")";
  }

  std::string describeResults(StepState &state) const {
    std::string text;
    for (int64_t slot : call.results)
      if (slot >= 0 && state.slots[slot].defined())
        text += (text.empty() ? " -> " : ", ") + describe(state.slots[slot]);
    return text;
  }

  const plan::AtenCallT &call;
};

} // namespace

std::string operatorName(const plan::AtenCallT &call) {
  std::string text = call.callee;
  if (size_t colons = text.find("::"); colons != text.npos)
    text.replace(colons, 2, ".");
  const std::string &overload =
      call.functional.empty() ? call.overload : call.functional;
  return text + "." + (overload.empty() ? "default" : overload);
}

std::unique_ptr<PreparedOp> makeRecorded(std::unique_ptr<PreparedOp> op,
                                         const StepPlan &plan, size_t index,
                                         StepRecorder &recorder) {
  const plan::OpT &entry = *plan.ops[index];
  StreamId stream = streamOf(entry);
  if (entry.body.type == plan::OpBody::record ||
      (entry.body.type == plan::OpBody::wait && stream != StreamId::Compute))
    return op;
  if (auto *call = entry.body.Asaten_call())
    return std::make_unique<RecordedCall>(std::move(op), index, recorder,
                                          *call);
  return std::make_unique<RecordedOp>(std::move(op), stream, index, recorder);
}

std::unique_ptr<PreparedOp> withoutRecord(std::unique_ptr<PreparedOp> op) {
  auto *recorded = dynamic_cast<RecordedOp *>(op.get());
  return recorded ? recorded->takeInner() : std::move(op);
}

} // namespace fcdp
