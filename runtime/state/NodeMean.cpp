// SPDX-License-Identifier: Apache-2.0
#include "state/NodeMean.h"

#include "core/Pieces.h"
#include "core/SumKernels.h"

#include <algorithm>

namespace fcdp {

namespace {

constexpr const char *kMean = "mean of the nodes' parameters";

/// Exchanges a rank's part with the ranks of other nodes that have the same
/// part.
class NodeExchange {
public:
  NodeExchange(const Mesh &mesh, Job &job, DType dtype)
      : mesh(mesh), job(job), own(placeOf(mesh, job.rank())), dtype(dtype) {}

  void writeMean(std::span<const std::byte> part, std::byte *out) {
    const auto width = int64_t(byteSize(dtype));
    // All nodes' values of a piece are in memory at once.
    forEachPiece(int64_t(part.size()) / width, pieceElements(1 << 20),
                 [&](int64_t begin, int64_t count) {
                   writeMean(part.data() + begin * width, size_t(count),
                             out + begin * width);
                 });
  }

private:
  void writeMean(const std::byte *values, size_t count, std::byte *out) {
    const size_t bytes = count * byteSize(dtype);
    others.resize(mesh.nodes * bytes);
    std::vector<Send> sends;
    std::vector<Recv> recvs;
    for (uint32_t node = 0; node < mesh.nodes; ++node) {
      if (node == own.node)
        continue;
      uint32_t peer = worldRank(mesh, {node, own.local});
      sends.push_back({peer, values, bytes});
      recvs.push_back({peer, others.data() + node * bytes, bytes});
    }
    job.control().exchange(sends, recvs, kMean);
    std::copy(values, values + bytes, others.data() + own.node * bytes);
    wide.resize(count);
    sum.assign(count, 0);
    for (uint32_t node = 0; node < mesh.nodes; ++node) {
      convertElements(reinterpret_cast<std::byte *>(wide.data()), DType::F64,
                      others.data() + node * bytes, dtype, count);
      for (size_t i = 0; i < count; ++i)
        sum[i] += wide[i];
    }
    for (double &value : sum)
      value /= mesh.nodes;
    convertElements(out, dtype, reinterpret_cast<const std::byte *>(sum.data()),
                    DType::F64, count);
  }

  const Mesh &mesh;
  Job &job;
  const Place own;
  const DType dtype;
  std::vector<std::byte> others;
  std::vector<double> wide, sum;
};

} // namespace

CommonPart::CommonPart(const StepPlan &plan, Job &job, Step &step,
                       const plan::BucketT &bucket, plan::StateRole role,
                       const plan::Buf &buf)
    : part(step.region(buf)) {
  bool isValue =
      role == plan::StateRole::shard || role == plan::StateRole::master;
  if (!isValue || !findState(bucket, plan::StateRole::outer))
    return;
  mean.resize(part.size());
  DType dtype = toDType(findState(bucket, role)->dtype());
  NodeExchange(plan.mesh, job, dtype).writeMean(part, mean.data());
  part = mean;
}

} // namespace fcdp
