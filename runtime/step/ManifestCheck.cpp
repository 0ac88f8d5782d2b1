// SPDX-License-Identifier: Apache-2.0
//
// The manifest's checks that look at several entries at once.
#include "step/Manifest.h"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

namespace fcdp {

namespace {

/// Collects nothing: throws at the first violation. Used by one thread.
class Checker {
public:
  Checker(const Manifest &manifest, uint64_t constantsBytes)
      : m(manifest), constantsBytes(constantsBytes) {}

  void checkAll() const;

private:
  [[noreturn]] static void fail(const std::string &where,
                                const std::string &message) {
    throw std::runtime_error("manifest." + where + ": " + message);
  }
  static void require(bool holds, const std::string &where,
                      const std::string &message) {
    if (!holds)
      fail(where, message);
  }

  void checkBuf(const Buf &buf, const std::string &where, size_t align) const;
  void checkFunctions() const;
  void checkBuckets() const;
  void checkState(const Bucket &bucket, const std::optional<TypedBuf> &state,
                  DType dtype, const std::string &where) const;
  void checkParameters() const;
  void checkBuffers() const;
  void checkInputs() const;
  void checkSlots() const;
  void checkOp(const Op &op, const std::string &where) const;
  void checkCommunicators() const;

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

  /// A flat region of `elements` of a type.
  void checkFlat(const Buf &buf, int64_t elements, DType dtype,
                 const std::string &where) const;

  const Manifest &m;
  uint64_t constantsBytes;
};

void Checker::checkBuf(const Buf &buf, const std::string &where,
                       size_t align) const {
  using Wide = unsigned __int128;
  uint64_t size = buf.arena == Arena::Device ? m.deviceBytes : m.hostBytes;
  Wide end = Wide(buf.offset) + Wide(m.mesh.nodes - 1) * buf.nodeStride +
             Wide(m.mesh.locals - 1) * buf.localStride + buf.bytes;
  const char *arena = buf.arena == Arena::Device ? "device" : "host";
  require(end <= size, where,
          "expected a region inside the " + std::string(arena) + " arena of " +
              std::to_string(size) + " bytes, got one that ends at byte " +
              (end >> 64 ? "2^64 or more" : std::to_string(uint64_t(end))));
  require(buf.offset % align == 0 && buf.nodeStride % align == 0 &&
              buf.localStride % align == 0,
          where,
          "expected offset and strides that are multiples of " +
              std::to_string(align) + " bytes");
}

void Checker::checkFlat(const Buf &buf, int64_t elements, DType dtype,
                        const std::string &where) const {
  uint64_t bytes = uint64_t(elements) * byteSize(dtype);
  require(buf.bytes == bytes, where + ".bytes",
          "expected " + std::to_string(bytes) + " (" +
              std::to_string(elements) + " elements of " + name(dtype) +
              "), got " + std::to_string(buf.bytes));
  checkBuf(buf, where, byteSize(dtype));
}

void Checker::checkFunctions() const {
  auto has = [&](const char *function) {
    return std::find(m.functions.begin(), m.functions.end(), function) !=
           m.functions.end();
  };
  std::vector<const char *> needed = {"init", "update"};
  if (m.microBatches == 1) {
    needed.push_back("only_microbatch");
  } else {
    needed.insert(needed.end(), {"first_microbatch", "last_microbatch"});
    if (m.microBatches > 2)
      needed.push_back("next_microbatch");
  }
  for (const char *function : needed)
    require(has(function), "functions",
            "'" + std::string(function) + "' is missing; a step of " +
                std::to_string(m.microBatches) + " micro-batches needs it");
  constexpr const char *known[] = {"init",
                                   "update",
                                   "only_microbatch",
                                   "first_microbatch",
                                   "next_microbatch",
                                   "last_microbatch"};
  for (const std::string &function : m.functions)
    require(std::find(std::begin(known), std::end(known), function) !=
                std::end(known),
            "functions", "'" + function + "' is unknown to this runtime");
}

void Checker::checkState(const Bucket &bucket,
                         const std::optional<TypedBuf> &state, DType dtype,
                         const std::string &where) const {
  if (!state)
    return;
  require(state->dtype == dtype, where + ".dtype",
          std::string("expected ") + name(dtype) + ", got " +
              name(state->dtype));
  checkFlat(*state, bucket.shardElements, dtype, where);
}

void Checker::checkBuckets() const {
  for (size_t i = 0; i < m.buckets.size(); ++i) {
    const Bucket &bucket = m.buckets[i];
    std::string where = "buckets[" + std::to_string(i) + "]";
    uint32_t parts = countParts(bucket.sharding, m.mesh);
    require(bucket.elements == bucket.shardElements * int64_t(parts),
            where + ".elements",
            "expected " + std::to_string(parts) + " shards of " +
                std::to_string(bucket.shardElements) + " elements, got " +
                std::to_string(bucket.elements));
    require(bucket.elements % m.mesh.size() == 0, where + ".elements",
            "expected a multiple of " + std::to_string(m.mesh.size()) +
                " ranks, got " + std::to_string(bucket.elements));
    require(bucket.shard.has_value(), where + ".states",
            "the state 'shard' is missing");
    where += ".states.";
    checkState(bucket, bucket.shard, bucket.storage, where + "shard");
    checkState(bucket, bucket.grad, DType::F32, where + "grad");
    checkState(bucket, bucket.expAvg, bucket.storage, where + "exp_avg");
    checkState(bucket, bucket.expAvgSq, bucket.storage, where + "exp_avg_sq");
    checkState(bucket, bucket.momentumBuffer, bucket.storage,
               where + "momentum_buffer");
    if (bucket.host)
      checkBuf(*bucket.host, where + "host", byteSize(bucket.host->dtype));
    if (bucket.resident)
      checkBuf(*bucket.resident, where + "resident",
               byteSize(bucket.resident->dtype));
    if (bucket.nodeGrad)
      checkFlat(*bucket.nodeGrad, bucket.elements / m.mesh.locals, DType::F32,
                where + "node_grad");
    if (bucket.fullGrad)
      checkFlat(*bucket.fullGrad, bucket.elements, DType::F32,
                where + "full_grad");
    if (bucket.hostGrad)
      checkFlat(*bucket.hostGrad, bucket.elements / m.mesh.locals, DType::F32,
                where + "host_grad");
  }
}

void Checker::checkParameters() const {
  std::set<std::string> names;
  // Per bucket: [begin, end) of each member.
  std::vector<std::vector<std::pair<int64_t, int64_t>>> members(
      m.buckets.size());
  for (size_t i = 0; i < m.parameters.size(); ++i) {
    const Parameter &parameter = m.parameters[i];
    const Bucket &bucket = m.buckets[parameter.bucket];
    std::string where = "parameters[" + std::to_string(i) + "]";
    for (const std::string &name : parameter.names)
      require(names.insert(name).second, where + ".names",
              "the name '" + name + "' is there twice");
    int64_t end = parameter.offsetElements + numElements(parameter.shape);
    require(end <= bucket.elements, where,
            "'" + parameter.name + "' ends at element " + std::to_string(end) +
                " of bucket '" + bucket.name + "', which has " +
                std::to_string(bucket.elements));
    require(parameter.dtype == bucket.storage, where + ".dtype",
            "expected the storage type " + std::string(name(bucket.storage)) +
                " of bucket '" + bucket.name + "', got " +
                name(parameter.dtype));
    if (numElements(parameter.shape) != 0)
      members[parameter.bucket].emplace_back(parameter.offsetElements, end);
  }
  for (size_t b = 0; b < members.size(); ++b) {
    std::sort(members[b].begin(), members[b].end());
    for (size_t i = 1; i < members[b].size(); ++i)
      require(members[b][i - 1].second <= members[b][i].first,
              "buckets[" + std::to_string(b) + "]",
              "two parameters overlap at element " +
                  std::to_string(members[b][i].first));
  }
}

void Checker::checkBuffers() const {
  for (size_t i = 0; i < m.buffers.size(); ++i) {
    const BufferSpec &buffer = m.buffers[i];
    std::string where = "buffers[" + std::to_string(i) + "].constant_offset";
    require(buffer.persistent || buffer.constantOffset ||
                numElements(buffer.shape) == 0,
            where,
            "'" + buffer.name +
                "' has no value: the step was exported from a model without "
                "weights (FakeTensorMode); export it from one with weights");
    if (!buffer.constantOffset)
      continue;
    uint64_t end = *buffer.constantOffset +
                   numElements(buffer.shape) * byteSize(buffer.dtype);
    require(end <= constantsBytes, where,
            "the value of '" + buffer.name + "' ends at byte " +
                std::to_string(end) + " of " + std::to_string(constantsBytes) +
                " bytes of constants");
  }
}

void Checker::checkInputs() const {
  std::set<std::string> names;
  for (size_t i = 0; i < m.inputs.size(); ++i) {
    std::string where = "inputs[" + std::to_string(i) + "]";
    require(names.insert(m.inputs[i].name).second, where + ".name",
            "the name '" + m.inputs[i].name + "' is there twice");
    DType type = m.inputs[i].dtype;
    bool isInteger = type == DType::I8 || type == DType::I16 ||
                     type == DType::I32 || type == DType::I64 ||
                     type == DType::U8;
    require(isInteger || !m.inputs[i].indexLimit, where + ".index_limit",
            std::string("expected null for an input of type ") + name(type));
  }
}

void Checker::checkSlots() const {
  for (size_t i = 0; i < m.slots.size(); ++i)
    if (auto *slot = std::get_if<PlannedSlot>(&m.slots[i]))
      checkFlat(slot->buf, numElements(slot->shape), slot->dtype,
                "slots[" + std::to_string(i) + "].buf");
}

void Checker::check(const ops::WriteBuffer &op,
                    const std::string &where) const {
  require(m.buffers[op.buffer].isMutable, where + ".buffer",
          "'" + m.buffers[op.buffer].name + "' is not mutable");
}

void Checker::check(const ops::Cast &op, const std::string &where) const {
  checkFlat(op.in, op.elements, op.inType, where + ".in");
  checkFlat(op.out, op.elements, op.outType, where + ".out");
}

void Checker::check(const ops::Pack &op, const std::string &where) const {
  for (const Buf &buf : op.zero)
    checkBuf(buf, where + ".zero", 1);
}

void Checker::check(const ops::Accumulate &op, const std::string &where) const {
  checkFlat(op.in, op.elements, DType::F32, where + ".in");
  checkFlat(op.out, op.elements, DType::F32, where + ".out");
}

void Checker::check(const ops::Add &op, const std::string &where) const {
  checkFlat(op.sum, op.elements, DType::F32, where + ".sum");
  checkFlat(op.in, op.elements, DType::F32, where + ".in");
  checkFlat(op.out, op.elements, DType::F32, where + ".out");
}

void Checker::check(const ops::ClipGradients &op,
                    const std::string &where) const {
  require(op.maxNorm > 0, where + ".max_norm", "expected a positive number");
}

void Checker::check(const ops::ShardUpdate &op,
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

void Checker::check(const ops::AllGather &op, const std::string &where) const {
  uint64_t bytes = op.in.bytes * m.ranks(op.axis);
  checkBuf(op.in, where + ".in", 1);
  checkBuf(op.out, where + ".out", 1);
  require(op.out.bytes == bytes, where + ".out.bytes",
          "expected " + std::to_string(bytes) + ", one 'in' per rank, got " +
              std::to_string(op.out.bytes));
}

void Checker::check(const ops::ReduceScatter &op,
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

void Checker::check(const ops::CacheCopy &op, const std::string &where) const {
  checkBuf(op.in, where + ".in", 1);
  checkBuf(op.out, where + ".out", 1);
  require(op.in.bytes == op.out.bytes, where + ".out.bytes",
          "expected " + std::to_string(op.in.bytes) + ", the bytes of 'in', " +
              "got " + std::to_string(op.out.bytes));
}

void Checker::checkOp(const Op &op, const std::string &where) const {
  std::visit([&](const auto &body) { check(body, where); }, op.body);
}

/// Gathers have a communicator per axis, reductions another: one stream uses
/// it.
void Checker::checkCommunicators() const {
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

void Checker::checkAll() const {
  checkFunctions();
  checkBuckets();
  checkParameters();
  checkBuffers();
  checkInputs();
  checkSlots();
  for (size_t i = 0; i < m.ops.size(); ++i)
    checkOp(m.ops[i], "ops[" + std::to_string(i) + "]");
  checkCommunicators();
}

} // namespace

void checkManifest(const Manifest &manifest, uint64_t constantsBytes) {
  Checker(manifest, constantsBytes).checkAll();
  checkHeldMemory(manifest);
}

} // namespace fcdp
