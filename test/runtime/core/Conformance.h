// SPDX-License-Identifier: Apache-2.0
//
// The conformance suite of the backends. A backend links `fcdp_conformance` and
// instantiates it:
//   INSTANTIATE_TEST_SUITE_P(Cpu, Conformance, testing::Values(factory));
// The suite accesses device memory only by copies.
#pragma once

#include "core/Backend.h"
#include "core/Mesh.h"

#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

namespace fcdp::conformance {

struct WorldOptions {
  Mesh mesh;
  uint64_t deviceBytes = 1 << 20;
  uint64_t hostBytes = 1 << 20; ///< per node, shared by its ranks
  uint32_t numEvents = 8;
  uint32_t queueCapacity = 64;
  double timeoutSeconds = 30;
};

/// Returns the shard that a rank owns, which is its rank over the world.
inline uint32_t shardOf(const Mesh &mesh, const Place &place) {
  return place.local * mesh.nodes + place.node;
}

/// The backends of all ranks, in one process.
class World {
public:
  virtual ~World() = default;
  virtual Backend &backend(uint32_t rank) = 0;
  /// Inject faults: the rank's connections close, or it goes silent.
  virtual void kill(uint32_t rank) = 0;
  virtual void hang(uint32_t rank) = 0;
};

struct Factory {
  std::string name;
  std::function<std::unique_ptr<World>(const WorldOptions &)> make;
};

inline std::ostream &operator<<(std::ostream &out, const Factory &factory) {
  return out << factory.name;
}

class Conformance : public testing::TestWithParam<Factory> {
protected:
  std::unique_ptr<World> make(const WorldOptions &options) {
    mesh = options.mesh;
    hostShare = options.hostBytes / options.mesh.locals;
    return GetParam().make(options);
  }
  std::unique_ptr<World> make(Mesh ofMesh) {
    WorldOptions options;
    options.mesh = ofMesh;
    return make(options);
  }

  /// Runs `body` for every rank on a thread of its own, the rank's issuer.
  void onAllRanks(World &world,
                  const std::function<void(uint32_t, Backend &)> &body) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < mesh.size(); ++rank)
      threads.emplace_back([&, rank] { body(rank, world.backend(rank)); });
    for (std::thread &thread : threads)
      thread.join();
  }

  /// Returns this rank's part of the node's host memory.
  std::byte *hostOf(uint32_t rank, Backend &backend) const {
    return backend.hostBase() + placeOf(mesh, rank).local * hostShare;
  }

  template <typename T>
  void upload(uint32_t rank, Backend &backend, size_t offset,
              const std::vector<T> &values) {
    std::copy(values.begin(), values.end(),
              reinterpret_cast<T *>(hostOf(rank, backend)));
    backend.copy(StreamId::H2D, backend.deviceBase() + offset,
                 hostOf(rank, backend), values.size() * sizeof(T));
    backend.synchronize();
  }

  template <typename T>
  std::vector<T> download(uint32_t rank, Backend &backend, size_t offset,
                          size_t count) {
    backend.synchronize();
    backend.copy(StreamId::D2H, hostOf(rank, backend),
                 backend.deviceBase() + offset, count * sizeof(T));
    backend.synchronize();
    auto *values = reinterpret_cast<T *>(hostOf(rank, backend));
    return std::vector<T>(values, values + count);
  }

  Mesh mesh;
  uint64_t hostShare = 0;
};

} // namespace fcdp::conformance
