// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/MessageCost.h"

#include "CollectiveEstimate.h"
#include "MeasuredCost.h"
#include "dialects/Fcdp/Fcdp.h"
#include "dialects/Fcdp/Wires.h"

using namespace mlir;
using namespace fcdp;

/// Adds the time in which the rank codes `coded` parts and decodes one part
/// from each other rank. Nothing is sent during that time.
static Cost withCodec(Cost transfer, const MessageRates &rates, int64_t coded,
                      int64_t ranks, double partBytes) {
  transfer.latency += double(coded + ranks - 1) * partBytes / rates.rate;
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
                                Wire wire) {
  const MessageRates &rates = cluster.messages;
  double bits = 8.0 * static_cast<double>(elementBytes);
  double share = getMessageBits(rates, wire, bits) / bits;
  return measureOver(
      cluster, getCollectiveName(CollectiveKind::reduceScatter, wire),
      stringifyAxis(Axis::node), partBytes, [&](double bytes) {
        Cost transfer =
            estimateOverAxis(cluster, Axis::node, CollectiveKind::allGather,
                             ranks, bytes * share);
        return withSum(withCodec(transfer, rates, ranks - 1, ranks, bytes),
                       cluster.device, ranks, bytes);
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
  return costOfCodedReduction(cluster, ranks, bytes / double(ranks),
                              elementBytes(element), collective.getWire());
}
