// SPDX-License-Identifier: Apache-2.0
//
// The manifest's checks of its operations.
#include "plan/ManifestCheck.h"

#include <map>

namespace fcdp {

namespace {

class OpChecker : ManifestChecker {
public:
  using ManifestChecker::ManifestChecker;

  void checkOp(const Op &op, const std::string &where) const;
  void checkCommunicators() const;

private:
  void check(const ops::AtenCall &, const std::string &) const {}
  void check(const ops::Loss &, const std::string &) const {}
  void check(const ops::Event &, const std::string &) const {}
  void check(const ops::WriteBuffer &op, const std::string &where) const;
  void check(const ops::Cast &op, const std::string &where) const;
  void check(const ops::Pack &op, const std::string &where) const;
  void check(const ops::Accumulate &op, const std::string &where) const;
  void check(const ops::Add &op, const std::string &where) const;
  void check(const ops::ClipGradients &op, const std::string &where) const;
  void check(const ops::ShardUpdate &op, const std::string &where) const;
  void check(const ops::AllGather &op, const std::string &where) const;
  void check(const ops::ReduceScatter &op, const std::string &where) const;
  void check(const ops::CacheCopy &op, const std::string &where) const;
};

void OpChecker::check(const ops::WriteBuffer &op,
                      const std::string &where) const {
  require(m.buffers[op.buffer].isMutable, where + ".buffer",
          "'" + m.buffers[op.buffer].name + "' is not mutable");
}

void OpChecker::check(const ops::Cast &op, const std::string &where) const {
  checkFlat(op.in, op.elements, op.inType, where + ".in");
  checkFlat(op.out, op.elements, op.outType, where + ".out");
}

void OpChecker::check(const ops::Pack &op, const std::string &where) const {
  for (const Buf &buf : op.zero)
    checkBuf(buf, where + ".zero", 1);
}

void OpChecker::check(const ops::Accumulate &op,
                      const std::string &where) const {
  checkFlat(op.in, op.elements, DType::F32, where + ".in");
  checkFlat(op.out, op.elements, DType::F32, where + ".out");
}

void OpChecker::check(const ops::Add &op, const std::string &where) const {
  checkFlat(op.sum, op.elements, DType::F32, where + ".sum");
  checkFlat(op.in, op.elements, DType::F32, where + ".in");
  checkFlat(op.out, op.elements, DType::F32, where + ".out");
}

void OpChecker::check(const ops::ClipGradients &op,
                      const std::string &where) const {
  require(op.maxNorm > 0, where + ".max_norm", "expected a positive number");
}

void OpChecker::check(const ops::ShardUpdate &op,
                      const std::string &where) const {
  const Bucket &bucket = m.buckets[op.bucket];
  auto needs = [&](const std::optional<TypedBuf> &state, const char *key) {
    require(state.has_value(), where,
            "bucket '" + bucket.name + "' has no state '" + key + "'");
  };
  require(bucket.trainable, where, "bucket '" + bucket.name + "' is frozen");
  needs(bucket.grad, "grad");
  if (std::holds_alternative<AdamW>(m.optimizer)) {
    needs(bucket.expAvg, "exp_avg");
    needs(bucket.expAvgSq, "exp_avg_sq");
  } else if (std::get<Sgd>(m.optimizer).momentum != 0) {
    needs(bucket.momentumBuffer, "momentum_buffer");
  }
}

void OpChecker::check(const ops::AllGather &op,
                      const std::string &where) const {
  uint64_t bytes = op.in.bytes * m.ranks(op.axis);
  checkBuf(op.in, where + ".in", 1);
  checkBuf(op.out, where + ".out", 1);
  require(op.out.bytes == bytes, where + ".out.bytes",
          "expected " + std::to_string(bytes) + ", one 'in' per rank, got " +
              std::to_string(op.out.bytes));
}

void OpChecker::check(const ops::ReduceScatter &op,
                      const std::string &where) const {
  int64_t ranks = m.ranks(op.axis);
  require(op.elements % ranks == 0, where + ".elements",
          "expected a multiple of " + std::to_string(ranks) + ", got " +
              std::to_string(op.elements));
  checkFlat(op.in, op.elements, op.inType, where + ".in");
  checkFlat(op.out, op.elements / ranks, op.outType, where + ".out");
  require(op.scratch || ranks == 1, where,
          "the key 'scratch' is missing; a reduction over " +
              std::to_string(ranks) + " ranks needs it");
  if (op.scratch && ranks > 1)
    checkFlat(*op.scratch, op.elements, op.inType, where + ".scratch");
}

void OpChecker::check(const ops::CacheCopy &op,
                      const std::string &where) const {
  checkBuf(op.in, where + ".in", 1);
  checkBuf(op.out, where + ".out", 1);
  require(op.in.bytes == op.out.bytes, where + ".out.bytes",
          "expected " + std::to_string(op.in.bytes) + ", the bytes of 'in', " +
              "got " + std::to_string(op.out.bytes));
}

void OpChecker::checkOp(const Op &op, const std::string &where) const {
  std::visit([&](const auto &body) { check(body, where); }, op.body);
}

/// Gathers have a communicator per axis, reductions another: one stream uses
/// it.
void OpChecker::checkCommunicators() const {
  std::map<std::pair<OpKind, Axis>, StreamId> streams;
  for (size_t i = 0; i < m.ops.size(); ++i) {
    const Op &op = m.ops[i];
    auto check = [&](Axis axis, StreamId stream) {
      StreamId first =
          streams.emplace(std::pair(op.kind, axis), stream).first->second;
      require(first == stream, "ops[" + std::to_string(i) + "].stream",
              std::string("expected '") + name(first) + "', as of the first " +
                  name(op.kind) + " over this axis, got '" + name(stream) +
                  "'");
    };
    if (auto *gather = std::get_if<ops::AllGather>(&op.body))
      check(gather->axis, gather->stream);
    else if (auto *reduce = std::get_if<ops::ReduceScatter>(&op.body))
      check(reduce->axis, reduce->stream);
  }
}

} // namespace

void checkOps(const Manifest &manifest) {
  OpChecker checker(manifest);
  for (size_t i = 0; i < manifest.ops.size(); ++i)
    checker.checkOp(manifest.ops[i], "ops[" + std::to_string(i) + "]");
  checker.checkCommunicators();
}

} // namespace fcdp
