// SPDX-License-Identifier: Apache-2.0
//
// The figures on which the cost of coded messages between nodes depends
// (docs/wires.md).
#pragma once

#include "llvm/ADT/ArrayRef.h"

namespace fcdp {

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
  static llvm::ArrayRef<Figure> getFigures() {
    static constexpr Figure figures[] = {
        {"rate", &MessageRates::rate, false},
        {"delta_bits", &MessageRates::deltaBits, true},
        {"coded_bits", &MessageRates::codedBits, true}};
    return figures;
  }
  /// The key of the rates in descriptions of clusters.
  static constexpr const char *kKey = "codec";
};

} // namespace fcdp
