// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/MessageCost.h"

#include "CollectiveEstimate.h"
#include "MeasuredCost.h"
#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/Wires.h"
#include "fcdp/Cluster/CollectiveCost.h"

#include <algorithm>

using namespace mlir;
using namespace fcdp;

/// Adds the time in which the rank codes `coded` parts and decodes one part
/// from each other rank. Nothing is sent during that time.
static Cost withCodec(Cost transfer, const MessageRates &rates, int64_t coded,
                      int64_t ranks, double partBytes) {
  transfer.latency += double(coded + ranks - 1) * partBytes / rates.rate;
  return transfer;
}

/// Adds the time in which a GPU rounds the parts of the others. It reads their
/// residuals from host memory and writes them back at the same time, which
/// takes longer than the work on values in its own memory.
static Cost withRounding(Cost transfer, const Cluster &cluster, int64_t ranks,
                         double partElements) {
  const double bytes = double(ranks - 1) * partElements * sizeof(float);
  double seconds = cluster.getHostMemoryTime(2 * bytes);
  for (LinkId copies : {LinkId::H2D, LinkId::D2H})
    seconds = std::max(
        seconds, costOfTransfer(cluster, cluster.links[copies], bytes).seconds);
  transfer.latency += seconds;
  return transfer;
}

Cost fcdp::costOfDeltaGather(const Cluster &cluster, int64_t ranks,
                             double partBytes) {
  const MessageRates &rates = cluster.messages;
  return measureOver(
      cluster, getCollectiveName(CollectiveKind::allGather, Wire::delta),
      stringifyAxis(Axis::node), partBytes, [&](double bytes) {
        Cost transfer =
            estimateOverAxis(cluster, Axis::node, CollectiveKind::allGather,
                             ranks, bytes * rates.deltaBits / 16);
        return withCodec(transfer, rates, 1, ranks, bytes);
      });
}

/// Returns the bits of a message for each value of `bits` bits.
static double getMessageBits(const MessageRates &rates, Wire wire,
                             double bits) {
  // The exponent is coded; the other bits of a wider value are sent unchanged.
  return getFixedBits(wire).value_or(rates.codedBits + bits - 16);
}

Cost fcdp::costOfCodedReduction(const Cluster &cluster, int64_t ranks,
                                double partBytes, int64_t elementBytes,
                                Wire wire, Target target) {
  const MessageRates &rates = cluster.messages;
  double bits = 8.0 * static_cast<double>(elementBytes);
  double share = getMessageBits(rates, wire, bits) / bits;
  return measureOver(
      cluster, getCollectiveName(CollectiveKind::reduceScatter, wire),
      stringifyAxis(Axis::node), partBytes, [&](double bytes) {
        Cost transfer =
            estimateOverAxis(cluster, Axis::node, CollectiveKind::allGather,
                             ranks, bytes * share);
        Cost coded = target == Target::cuda
                         ? withRounding(transfer, cluster, ranks,
                                        bytes / double(elementBytes))
                         : withCodec(transfer, rates, ranks - 1, ranks, bytes);
        return withSum(coded, cluster.device, ranks, bytes);
      });
}

std::optional<Cost> fcdp::costOfMessages(const Cluster &cluster,
                                         CollectiveOpInterface collective,
                                         int64_t ranks, double bytes) {
  if (!collective.isCoded())
    return std::nullopt;
  if (!collective.isReduction())
    return costOfDeltaGather(cluster, ranks, bytes);
  Type element =
      cast<RankedTensorType>(collective.getInput().getType()).getElementType();
  return costOfCodedReduction(
      cluster, ranks, bytes / double(ranks), elementBytes(element),
      collective.getWire(), getTarget(collective->getParentOfType<ModuleOp>()));
}
