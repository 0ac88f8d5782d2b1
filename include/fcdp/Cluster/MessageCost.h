// SPDX-License-Identifier: Apache-2.0
//
// The cost of coded messages between nodes (docs/wires.md).
#pragma once

#include "dialects/Fcdp/Enums.h"
#include "fcdp/Cluster/Cost.h"

namespace fcdp {

struct Cluster;
class CollectiveOpInterface;

/// The coding of values that are sent between nodes. The defaults were measured
/// on one core of a server, for a model in bf16 at a learning rate of 1e-4.
struct MessageRates {
  /// The rate in bytes of values per second at which a rank codes, and at which
  /// it decodes.
  double rate = 1e9;
  /// The number of bits that a value of 16 bits is coded in: the difference of
  /// a parameter from one step to the next, and a gradient with a coded
  /// exponent.
  double deltaBits = 2.4, codedBits = 11.4;

  /// A number, its key in descriptions of clusters, and whether it is of bits.
  struct Figure {
    const char *key;
    double MessageRates::*value;
    bool isBits;
  };
  static llvm::ArrayRef<Figure> getFigures();
  /// The key of the rates in descriptions of clusters.
  static constexpr const char *kKey = "codec";
};

/// Return the cost of collectives over `node` with coded messages. A gather has
/// one part of `partBytes` from each of `ranks` ranks, and a reduction leaves
/// one on each. Values are coded before any is sent, and decoded after the last
/// has arrived. `elementBytes` is the size of a gradient in the reduction, and
/// `wire` is not `raw`.
Cost costOfDeltaGather(const Cluster &cluster, int64_t ranks, double partBytes);
Cost costOfCodedReduction(const Cluster &cluster, int64_t ranks,
                          double partBytes, int64_t elementBytes, Wire wire);

/// Returns the cost of a collective over `node` with coded messages, of which a
/// rank's input has `bytes`; none if its messages are not coded.
std::optional<Cost> costOfMessages(const Cluster &cluster,
                                   CollectiveOpInterface collective,
                                   int64_t ranks, double bytes);

} // namespace fcdp
