// SPDX-License-Identifier: Apache-2.0
//
// How long work takes on the fake device, in a time that only the device's
// events show. What is measured by them is known in advance, whatever the time
// of the machine that the fake runs on.
#pragma once

#include <map>
#include <set>
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
  /// A matrix product in operands of `type`, "f32" or another one.
  double product(const std::string &type, double flops, double bytes) const;
  /// A copy between host and device.
  double copy(bool isToHost, double bytes) const;
  /// A collective in which each rank sends so many bytes to others. `kind` is
  /// "node", "local" or "world".
  double collective(const std::string &kind, double bytes) const;
  /// The time that work takes longer when it runs for the first time, as CUDA
  /// loads kernels and NCCL connects ranks then.
  double first(const std::string &work);
  /// Bytes of the device that something takes, "device", "context" or
  /// "communicator"; 0 if it is not given.
  double bytes(const std::string &key) const { return get(key, 0); }

private:
  double get(const std::string &key, double otherwise) const;
  double seconds(const std::string &rate, double amount) const;

  std::map<std::string, double> values;
  std::set<std::string> known;
};

} // namespace fcdp::fake
