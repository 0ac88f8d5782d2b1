// SPDX-License-Identifier: Apache-2.0
//
// The manifest's checks that look at several entries at once.
#include "plan/ManifestCheck.h"

#include <algorithm>
#include <set>

namespace fcdp {

void ManifestChecker::checkBuf(const Buf &buf, const std::string &where,
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

void ManifestChecker::checkFlat(const Buf &buf, int64_t elements, DType dtype,
                                const std::string &where) const {
  uint64_t bytes = uint64_t(elements) * byteSize(dtype);
  require(buf.bytes == bytes, where + ".bytes",
          "expected " + std::to_string(bytes) + " (" +
              std::to_string(elements) + " elements of " + name(dtype) +
              "), got " + std::to_string(buf.bytes));
  checkBuf(buf, where, byteSize(dtype));
}

namespace {

/// All but the operations.
class Checker : ManifestChecker {
public:
  Checker(const Manifest &manifest, uint64_t constantsBytes)
      : ManifestChecker(manifest), constantsBytes(constantsBytes) {}

  void checkAll() const;

private:
  void checkFunctions() const;
  void checkBuckets() const;
  void checkState(const Bucket &bucket, const std::optional<TypedBuf> &state,
                  DType dtype, const std::string &where) const;
  void checkParameters() const;
  void checkBuffers() const;
  void checkInputs() const;
  void checkSlots() const;

  uint64_t constantsBytes;
};

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

void Checker::checkAll() const {
  checkFunctions();
  checkBuckets();
  checkParameters();
  checkBuffers();
  checkInputs();
  checkSlots();
}

} // namespace

void checkManifest(const Manifest &manifest, uint64_t constantsBytes) {
  Checker(manifest, constantsBytes).checkAll();
  checkOps(manifest);
  checkHeldMemory(manifest);
}

} // namespace fcdp
