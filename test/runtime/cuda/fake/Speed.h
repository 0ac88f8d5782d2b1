// SPDX-License-Identifier: Apache-2.0
//
// How long work takes on the fake device, in a time that only the device's
// events show. So a test knows in advance what they measure, however fast the
// machine is that the fake runs on.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace fcdp::fake {

/// Seconds of work by a few rates. Work whose rate is not given takes no time.
/// Ranks count as arriving at a collective at the same time. Guarded by the
/// machine's lock.
class Speed {
public:
  /// Reads `KEY=NUMBER,KEY=NUMBER`, such as `f32=1e10,launch=2e-6`. Throws
  /// std::invalid_argument with the keys there are.
  explicit Speed(const std::string &text);

  /// A kernel that accesses so many bytes.
  double kernel(double bytes) const;
  /// A matrix product in operands of `type`, "f32" or another one. After "heat"
  /// seconds of products, rates are "sustained" times as high.
  double product(const std::string &type, double flops, double bytes);
  /// Fused attention. With a mask, or with heads of at most 64 elements, its
  /// rate is "masked" or "narrow" times as high.
  double attention(double flops, int64_t head, bool isBackward,
                   bool isMasked) const;
  /// Returns whether the device has no products of `type`, or no attention of
  /// "attention_f16": its rate is below 0.
  bool lacks(const std::string &type) const { return get(type, 0) < 0; }
  /// A copy between host and device.
  double copy(bool isToHost, double bytes) const;
  /// Returns when a copy ends that would take from `begin` to `end` alone. All
  /// copies since the host has last seen the device idle, which was at `seen`,
  /// share the rate "host".
  double endOfCopy(bool isToHost, double seen, double begin, double end,
                   double bytes);
  /// A collective in which each rank sends so many bytes to others. `kind` is
  /// "node", "local" or "world".
  double collective(const std::string &kind, double bytes) const;
  /// The time that work takes longer when it runs for the first time, or the
  /// first "firsts" times, as CUDA loads kernels and NCCL connects ranks then.
  double first(const std::string &work);
  /// Bytes of the device that something takes, "device", "context" or
  /// "communicator"; 0 if it is not given.
  double bytes(const std::string &key) const { return get(key, 0); }

private:
  double get(const std::string &key, double otherwise) const;
  double seconds(const std::string &rate, double amount) const;

  std::map<std::string, double> values;
  std::map<std::string, int> runs;
  double secondsOfProducts = 0;
  /// Times and bytes of copies since the host has seen the device idle.
  double copiesBegan = 0, copiesEnd = 0, copiedBytes = 0;
  /// Seconds by which the host's memory makes each direction late.
  double delays[2] = {0, 0};
};

} // namespace fcdp::fake
