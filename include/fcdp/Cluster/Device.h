// SPDX-License-Identifier: Apache-2.0
//
// Describes the device of a rank, and gives the time of its work. This code
// does not depend on the IR.
#pragma once

#include "fcdp/Cluster/DeviceReserve.h"
#include "fcdp/Cluster/RateCurve.h"

#include <array>
#include <cstdint>
#include <vector>

namespace fcdp {

/// The types of a product's operands for which a device has a rate.
enum class RateType { f64, f32, bf16, f16 };

/// Peak rates of a device in matrix products, in floating-point operations per
/// second, by the type of the operands.
struct FlopRates {
  double f64 = 0, f32 = 0, bf16 = 0, f16 = 0;

  double get(RateType type) const;
};

/// `batch` products of matrices, m x k by k x n.
struct Product {
  double batch = 0, m = 0, n = 0, k = 0;

  double getFlops() const { return 2 * batch * m * n * k; }
};

/// The products of a mixture of experts: `mean.batch` products in one kernel
/// that differ in the size that `divided` names.
struct GroupedProduct {
  /// The size of each product, if all are equal.
  Product mean;
  /// The size, of rows, columns or summands, that the groups divide among them.
  double Product::*divided = nullptr;
  /// The size of the i-th group is in proportion to 1 / i^skew (Zipf).
  double skew = 0;
};

/// The rate that one product reaches, in floating-point operations per second.
struct MeasuredProduct {
  RateType type = RateType::bf16;
  Product shape;
  double flops = 0;
};

/// Shares of the peak rate that fused attention reaches, in (0, 1].
struct AttentionRates {
  /// Rates by the number of keys. Without points, attention reaches the rate of
  /// other products times a fixed share.
  RateCurve forward, backward;
  /// The factors on these shares for a kernel that is given a mask, and for
  /// heads of at most 64 elements.
  double masked = 1, narrow = 1;
};

/// The fused attention of one call.
struct AttentionWork {
  /// The number of keys that a query is compared with, before any mask.
  double keys = 0;
  /// Elements of a head.
  double head = 0;
  bool isBackward = false, isMasked = false;
};

/// The device of one rank.
struct Device {
  /// Bytes.
  int64_t memory = 0;
  DeviceReserve reserve;
  /// Bytes per second, reads and writes together.
  double memoryBandwidth = 0;
  FlopRates flops;
  /// The version of an NVIDIA GPU's instructions, which determines the kernels
  /// that it has: 7.5 for a T4.
  double computeCapability = 8;
  /// Shares of the peak compute rate and of `memoryBandwidth` that large
  /// operators reach, in (0, 1].
  double computeEfficiency = 0, memoryEfficiency = 0;
  /// The share of `memoryBandwidth` by the bytes that an operator accesses. If
  /// it has points, they take the place of `memoryEfficiency`.
  RateCurve memoryCurve;
  /// Processors that each compute one tile of a product at a time; 0 if
  /// products of all shapes reach the same rate.
  int64_t processors = 0;
  /// Measured products. Estimates of other products are corrected by the ratio
  /// of measured to estimated time of the nearest ones.
  std::vector<MeasuredProduct> products;
  AttentionRates attention;
  /// Share of the processors that run a collective's kernel, in [0, 1).
  /// Products that run at the same time have the rest.
  double collectiveShare = 0;
  /// The share of the rates above, which were measured on single kernels, that
  /// operators reach in training: clocks fall under sustained load, and caches
  /// are cold. In (0, 1].
  double sustained = 1;
  /// Standard deviation of the speed of devices of this kind, relative to it. A
  /// step waits for the slowest.
  double variation = 0;
  /// Seconds per operator in which the device is idle.
  double launchLatency = 0;

  /// Returns the seconds of an operator that reads and writes `bytes` in all.
  double getMemoryTime(double bytes) const;
  /// Returns the seconds per byte of an operator that accesses a great number
  /// of bytes.
  double getTimePerByte() const;
  /// Returns the seconds of a product whose operands and results have `bytes`
  /// in all.
  double getProductTime(RateType type, const Product &product,
                        double bytes) const;
  /// Returns the seconds of the products of groups, whose operands and results
  /// have `bytes` in all.
  double getGroupedTime(RateType type, const GroupedProduct &products,
                        double bytes) const;
  /// Returns the factor by which the slowest of `devices` takes longer than the
  /// mean: the expected greatest of so many normal values (Blom, "Statistical
  /// Estimates and Transformed Beta-Variables", 1958).
  double getSlowestFactor(int64_t devices) const;
  /// Returns the seconds of `flops` operations of fused attention.
  double getAttentionTime(RateType type, double flops,
                          const AttentionWork &work) const;
};

} // namespace fcdp
