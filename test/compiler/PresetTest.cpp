// SPDX-License-Identifier: Apache-2.0
//
// Checks the presets' devices against rates that others measured. Each preset's
// `compute_efficiency` is chosen by the largest of its products. That others
// follow is what the model of tiles and of memory adds.

#include "fcdp/Cluster/Cluster.h"

#include "llvm/Support/Error.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace fcdp;

namespace {
struct Measured {
  const char *preset;
  RateType type;
  double m, n, k;
  /// Operations per second, times 1e12.
  double rate;
  /// The greatest relative error.
  double error;
};
} // namespace

static Device loadDevice(const char *preset) {
  return llvm::cantFail(loadCluster(preset)).device;
}

TEST(PresetDevices, ReachTheRatesOfPublishedProducts) {
  RateType bf16 = RateType::bf16, f16 = RateType::f16;
  const Measured kRows[] = {
      // zzc0721/torch-performance-test-data, issues 79, 95, 108, 185, 78, 140.
      {"h100", bf16, 2048, 2048, 2048, 677, 0.1},
      {"h100", bf16, 4096, 4096, 4096, 789, 0.1},
      {"h100", bf16, 8192, 8192, 8192, 798, 0.1},
      {"h100", bf16, 10240, 10240, 10240, 720, 0.1},
      {"h100-pcie", bf16, 2048, 2048, 2048, 449, 0.3},
      {"h100-pcie", bf16, 4096, 4096, 4096, 496, 0.15},
      {"a100-pcie", bf16, 4096, 4096, 4096, 234, 0.1},
      {"a100-pcie", bf16, 10240, 10240, 10240, 212, 0.1},
      {"a40-rdma", bf16, 2048, 2048, 2048, 95, 0.1},
      {"a40-rdma", bf16, 4096, 4096, 4096, 115, 0.15},
      {"a40-rdma", bf16, 10240, 10240, 10240, 122, 0.1},
      {"rtx4090", bf16, 2048, 2048, 2048, 165, 0.1},
      {"rtx4090", bf16, 10240, 10240, 10240, 159, 0.1},
      {"v100-32gb", f16, 2048, 2048, 2048, 78, 0.1},
      {"v100-32gb", f16, 4096, 4096, 4096, 96, 0.1},
      // Triton's tutorial 03 on A100 SXM: triton-lang/triton, issue 3551.
      {"a100-80gb", f16, 1536, 1536, 1536, 176.9, 0.1},
      {"a100-80gb", f16, 2048, 2048, 2048, 233.0, 0.25},
      {"a100-80gb", f16, 2304, 2304, 2304, 246.3, 0.1},
      {"a100-80gb", f16, 2688, 2688, 2688, 213.1, 0.1},
      {"a100-80gb", f16, 3200, 3200, 3200, 244.3, 0.1},
      // Few rows: vllm-project/vllm, pull requests 17126 and 49363.
      {"h100", bf16, 16, 6144, 4096, 39.1, 0.1},
      {"h100", bf16, 64, 6144, 4096, 160.6, 0.1},
      {"h100", bf16, 128, 6144, 4096, 307.9, 0.1},
      {"h100", bf16, 256, 6144, 4096, 544.3, 0.15},
      {"h100", bf16, 64, 12288, 5376, 182.6, 0.1},
      {"h100", bf16, 256, 43008, 5376, 593.3, 0.15},
  };
  for (const Measured &row : kRows) {
    Device device = loadDevice(row.preset);
    Product product{1, row.m, row.n, row.k};
    double bytes = 2 * (row.m * row.k + row.k * row.n + row.m * row.n);
    double seconds =
        device.getProductTime(row.type, product, bytes) + device.launchLatency;
    double rate = product.getFlops() / seconds / 1e12;
    EXPECT_LE(std::abs(rate / row.rate - 1), row.error)
        << row.preset << ": " << row.m << " x " << row.n << " x " << row.k
        << ": " << rate << " instead of " << row.rate;
  }
}

TEST(PresetDevices, TakeAsLongAsPublishedChainsOfSmallKernels) {
  struct Chain {
    const char *preset;
    double bytes, seconds, error;
  };
  // te42kyfo/gpu-benches, gpu-small-kernels: data that stays in the caches, and
  // for the last two rows data that does not.
  for (const Chain &chain : {Chain{"h200", 65536, 2.4e-6, 0.1},
                             {"a100-80gb", 65536, 2.7e-6, 0.1},
                             {"a40-rdma", 65536, 2.0e-6, 0.1},
                             {"l40s", 65536, 1.6e-6, 0.1},
                             {"h200", 180.8e6, 56.4e-6, 0.2},
                             {"a40-rdma", 71.2e6, 116.7e-6, 0.1}}) {
    Device device = loadDevice(chain.preset);
    double seconds = device.getMemoryTime(chain.bytes) + device.launchLatency;
    EXPECT_LE(std::abs(seconds / chain.seconds - 1), chain.error)
        << chain.preset << ": " << chain.bytes << " bytes: " << seconds;
  }
}

TEST(PresetDevices, AttentionIsFasterForward) {
  for (const ClusterPreset &preset : getClusterPresets()) {
    // PyTorch's kernel for B200 is slower forward than backward for few keys.
    if (preset.name == "cpu" || preset.name == "b200")
      continue;
    Device device = llvm::cantFail(loadCluster(preset.name)).device;
    for (double keys : {512.0, 4096.0, 65536.0})
      EXPECT_LT(device.getAttentionTime(RateType::bf16, 1e12,
                                        {keys, 128, false, false}),
                device.getAttentionTime(RateType::bf16, 1e12,
                                        {keys, 128, true, false}))
          << preset.name.str();
  }
}
