// SPDX-License-Identifier: Apache-2.0
//
// A backend of one rank that does everything at once.
#pragma once

#include "core/Backend.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace fcdp::test {

class LocalBackend : public Backend {
public:
  LocalBackend(size_t deviceBytes, size_t hostBytes) : host(hostBytes) {
    device.reserve(deviceBytes + kMostGrowth);
    device.resize(deviceBytes);
  }

  static constexpr size_t kMostGrowth = 1 << 20;

  std::byte *deviceBase() override { return device.data(); }
  std::shared_ptr<std::byte> extendDevice(uint64_t from, uint64_t to) override {
    if (to > device.capacity())
      throw std::runtime_error("no memory");
    device.resize(std::max<size_t>(device.size(), to));
    return {std::shared_ptr<std::byte>(), device.data() + from};
  }
  std::byte *hostBase() override { return host.data(); }
  void copy(StreamId stream, void *dst, const void *src,
            size_t bytes) override {
    copied.links[stream == StreamId::H2D ? LinkId::H2D : LinkId::D2H] += bytes;
    std::memcpy(dst, src, bytes);
  }
  void add(StreamId stream, float *sum, const float *part,
           size_t elements) override {
    added.push_back(stream);
    for (size_t i = 0; i < elements; ++i)
      sum[i] += part[i];
  }
  void allGather(const Collective &collective) override {
    what = collective.what;
    if (collective.out != collective.in)
      std::memcpy(collective.out, collective.in, collective.bytes);
  }
  void reduceScatter(const Collective &collective) override {
    what = collective.what;
    std::memcpy(collective.out, collective.in, collective.bytes);
  }
  void sumOverRanks(double *sum, double *numbers, const char *what) override {
    if (!sumError.empty())
      throw std::runtime_error(what + sumError);
    if (numbersOfRanks.empty())
      return;
    *sum = 0;
    for (double number : numbersOfRanks)
      *sum += *numbers++ = number;
  }
  void record(uint32_t event, StreamId) override { recorded.push_back(event); }
  void wait(uint32_t event, StreamId) override { waited.push_back(event); }
  void waitOnHost(uint32_t) override {}
  void synchronize() override {}
  bool failed() const override { return !error.empty(); }
  void fail(const std::string &message) override { error = message; }
  std::string failure() const override { return error; }
  FailureKind failureKind() const override { return FailureKind::Other; }
  ByteCounters counters() const override { return copied; }

  template <typename T>
  T *at(size_t offset) {
    return reinterpret_cast<T *>(device.data() + offset);
  }

  std::vector<std::byte> device, host;
  std::vector<uint32_t> recorded, waited;
  std::vector<StreamId> added;
  std::string what, error;
  /// The error that a sum over ranks fails with, after the sum's name.
  std::string sumError;
  /// The numbers of all ranks in a sum over them, or none if there is one rank.
  std::vector<double> numbersOfRanks;
  ByteCounters copied;
};

} // namespace fcdp::test
