// SPDX-License-Identifier: Apache-2.0
//
// The CUDA backends of all ranks, each on its own device of the fake machine.
#pragma once

#include "Conformance.h"
#include "cuda/CudaBackend.h"
#include "fake/Machine.h"
#include "nccl/NcclAxes.h"
#include "store/MemoryStore.h"
#include "transports/InProcessTransport.h"

namespace fcdp {

/// Return the libraries that replace the real ones.
std::shared_ptr<const CudaLibrary> fakeCuda();
std::shared_ptr<const NcclLibrary> fakeNccl();

IdExchange exchangeOver(MemoryStore &store);

class CudaWorld final : public conformance::World {
public:
  /// The value of CudaBackendOptions.
  static constexpr double noticeSeconds = 0.1;

  /// `messages`, `reducesByLibrary` and `onBlocked` are options of
  /// CudaBackendOptions.
  CudaWorld(const conformance::WorldOptions &options, fake::Policy policy,
            std::array<WarmUp, kNumAxes> messages = {},
            bool reducesByLibrary = false, OnBlocked onBlocked = {});
  ~CudaWorld() override;

  Backend &backend(uint32_t rank) override { return *backends[rank]; }
  CudaBackend &cudaBackend(uint32_t rank) { return *backends[rank]; }
  void kill(uint32_t rank) override;
  void hang(uint32_t rank) override;

private:
  void makeRank(uint32_t rank, const conformance::WorldOptions &world,
                const std::string &name);

  const Mesh mesh;
  const std::array<WarmUp, kNumAxes> messages;
  const bool reducesByLibrary;
  const OnBlocked onBlocked;
  std::shared_ptr<MemoryStore> store;
  std::unique_ptr<InProcessGroup> controlGroup;
  std::vector<std::unique_ptr<Transport>> controls;
  std::vector<std::unique_ptr<CudaBackend>> backends;
};

} // namespace fcdp
