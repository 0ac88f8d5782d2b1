// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/CostModel.h"

#include "dialects/Aten/Aten.h"
#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/MessageCost.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {
/// 2 nodes of 4 ranks, with round numbers.
Cluster makeCluster() {
  Cluster cluster;
  cluster.nodes = 2;
  cluster.ranksPerNode = 4;
  cluster.device.memory = cluster.host.memory = 1'000'000'000;
  cluster.device.memoryBandwidth = 2e9;
  cluster.device.flops = {1e9, 2e9, 8e9, 4e9};
  cluster.device.computeEfficiency = cluster.device.memoryEfficiency = 0.5;
  cluster.device.launchLatency = 0.5;
  cluster.links[LinkId::Inter] = {1e6, 3, Sharing::node, 0};
  cluster.links[LinkId::Intra] = {1e7, 2, Sharing::rank, 0};
  cluster.links[LinkId::H2D] = {1e8, 1, Sharing::switched, 2};
  cluster.links[LinkId::D2H] = {1e8, 1, Sharing::node, 0};
  llvm::cantFail(cluster.check());
  return cluster;
}

constexpr char kSymbols[] = R"(
  fcdp.mesh @world(node = 2, local = 4)
  fcdp.parameter @w : tensor<1000xf32> unit "m" trainable names ["w"]
  fcdp.parameter @x : tensor<1000xf32> unit "n" names ["x"]
  fcdp.bucket @b unit "m" elements 8000 storage f32 wire bf16 trainable members [@w at 0]
  fcdp.bucket @c unit "n" elements 8000 storage f32 wire bf16 members [@x at 0]
  fcdp.bucket @whole unit "m" elements 8000 storage f32 wire f32 trainable sharding none members []
  fcdp.parameter @m0 : tensor<20x40xf32> unit "m" trainable names ["m0"]
  fcdp.parameter @m1 : tensor<10x10xf32> unit "m" trainable names ["m1"]
  fcdp.parameter @m2 : tensor<30x20xf32> unit "m" trainable names ["m2"]
  fcdp.bucket @owned unit "m" elements 8000 storage f32 wire bf16 trainable layout owned states host members [@m0 at 0, @m1 at 800, @m2 at 1024]
  fcdp.bucket @mastered unit "m" elements 8000 storage bf16 wire bf16 master f32 trainable members []
  fcdp.state @moment exp_avg of @owned in host : tensor<1000xf32>
  fcdp.bucket @hosted unit "m" elements 8000 storage bf16 wire bf16 master f32 trainable states host update host members []
  fcdp.bucket @filed unit "m" elements 8000 storage f32 wire bf16 trainable states file members []
  fcdp.state @on_disk exp_avg of @filed in file : tensor<1000xf32>
  fcdp.state @s cache of @b in host : tensor<2000xbf16>
  fcdp.state @r residual of @b in host : tensor<2000xf32>
  fcdp.state @g full_grad of @b in device : tensor<8000xf32>
  fcdp.buffer @m : tensor<100xf32> name "m" mutable
)";

class CostModelTest : public testing::Test {
protected:
  CostModelTest() {
    DialectRegistry registry;
    registry.insert<FcdpDialect, aten::AtenDialect, func::FuncDialect>();
    context.appendDialectRegistry(registry);
  }

  /// Returns the cost of the last operation of `body`. Its arguments are %a, %b
  /// and so on, with the given types.
  Cost cost(std::string body, std::string arguments = "") {
    std::string text = kSymbols + ("func.func @f(" + arguments + ") {\n") +
                       body + "\nreturn\n}\n";
    ParserConfig config(&context);
    module = parseSourceString<ModuleOp>(text, config);
    EXPECT_TRUE(module) << text;
    if (!module)
      return {};
    auto function = *module->getOps<func::FuncOp>().begin();
    Block &block = function.getBody().front();
    cluster.profile = profile;
    return CostModel(cluster).costOf(block.getTerminator()->getPrevNode());
  }

  std::shared_ptr<const Profile> profile;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  Cluster cluster = makeCluster();
};

void expectCost(const Cost &cost, Resource resource, double latency,
                double seconds) {
  EXPECT_EQ(cost.resource, resource);
  EXPECT_DOUBLE_EQ(cost.latency, latency);
  EXPECT_DOUBLE_EQ(cost.seconds, seconds);
}
} // namespace

TEST_F(CostModelTest, Gathers) {
  // 4 ranks share the node's link, and each sends 1000 elements of 2 bytes.
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 : "
                  "tensor<1000xbf16> to tensor<2000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3, 4 * 2000 / 1e6);
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[local] range 0 : "
                  "tensor<2000xbf16> to tensor<8000xbf16>",
                  "%a: tensor<2000xbf16>"),
             Resource::intra, 2, 3 * 4000 / 1e7);
  // Each of a node's 4 ranks sends its part to the 4 ranks of the other node.
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node, local] "
                  "range 0 : tensor<1000xbf16> to tensor<8000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3, 4 * 4 * 2000 / 1e6);
  // Each of 8 ranks has a shard of 1000 f32.
  expectCost(cost("%g = fcdp.all_gather %a of @w over @world[node, local] "
                  "range 0 : !fcdp.shard<tensor<1000xf32>> to "
                  "tensor<1000xf32>",
                  "%a: !fcdp.shard<tensor<1000xf32>>"),
             Resource::inter, 3, 4 * 4 * 500 / 1e6);
}

TEST(CostModel, FlatCollectivesTravelAsTheClusterSays) {
  Cluster cluster = makeCluster();
  expectCost(CostModel(cluster).costOfFlatGather(2000), Resource::inter, 3,
             16 * 2000 / 1e6);
  // Then 8 parts are read and one is written.
  expectCost(CostModel(cluster).costOfFlatReduction(2000), Resource::inter,
             3 + 9 * 2000 / 1e9, 16 * 2000 / 1e6);
  // In a ring of 8, 7 parts leave a node, and 1 step of 7 waits for the other
  // node.
  cluster.flatCollectives = FlatCollectives::ring;
  expectCost(CostModel(cluster).costOfFlatGather(2000), Resource::inter,
             3 + 6 * 2, 7 * 2000 / 1e6);
  // The cost is on the link that takes longer.
  cluster.links[LinkId::Inter].bandwidth = 1e12;
  expectCost(CostModel(cluster).costOfFlatGather(2000), Resource::intra,
             3 + 6 * 2, 7 * 2000 / 1e7);
}

TEST_F(CostModelTest, Reductions) {
  // The sum reads 4 parts of 2000 elements and writes one.
  expectCost(cost("%g = fcdp.reduce_scatter %a of @b over @world[local] : "
                  "tensor<8000xf32> to tensor<2000xf32>",
                  "%a: tensor<8000xf32>"),
             Resource::intra, 2 + 5 * 8000 / 1e9, 3 * 8000 / 1e7);
  expectCost(cost("%g = fcdp.reduce_scatter %a of @b over @world[node] : "
                  "tensor<2000xf32> to tensor<1000xf32>",
                  "%a: tensor<2000xf32>"),
             Resource::inter, 3 + 3 * 4000 / 1e9, 4 * 4000 / 1e6);
}

// Within a node, 2 of 4 ranks send 2 parts of 8000 bytes to the other socket.
// The ranks of a ring send 3 parts, and add while they receive.
TEST_F(CostModelTest, ReductionsBetweenSockets) {
  cluster.host.numaNodes = 2;
  cluster.host.socketBandwidth = 1e3;
  const char *reduction =
      "%g = fcdp.reduce_scatter %a of @b over @world[local] : "
      "tensor<8000xf32> to tensor<2000xf32>";
  expectCost(cost(reduction, "%a: tensor<8000xf32>"), Resource::intra,
             2 + 5 * 8000 / 1e9, 4 * 8000 / 1e3);
  cluster.localReductions = LocalReductions::ring;
  expectCost(cost(reduction, "%a: tensor<8000xf32>"), Resource::intra, 2,
             3 * 8000 / 1e3);
}

/// A rank codes its part and decodes the other node's part; less is sent.
TEST_F(CostModelTest, CodedWires) {
  cluster.messages = {1e5, 4, 12};
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 "
                  "delta @s : tensor<1000xbf16> to tensor<2000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3 + 2 * 2000 / 1e5, 4 * 2000 * 0.25 / 1e6);
  // 28 of 32 bits are sent. The sum reads 2 parts and writes one.
  expectCost(cost("%g = fcdp.reduce_scatter %a of @b over @world[node] code "
                  "coded : tensor<2000xf32> to tensor<1000xf32>",
                  "%a: tensor<2000xf32>"),
             Resource::inter, 3 + 2 * 4000 / 1e5 + 3 * 4000 / 1e9,
             4 * 4000 * 0.875 / 1e6);
  // 8 bits and a scale of 16 for 256 values.
  EXPECT_DOUBLE_EQ(cost("%g = fcdp.reduce_scatter %a of @b over @world[node] "
                        "code int8 residual @r : tensor<2000xf32> to "
                        "tensor<1000xf32>",
                        "%a: tensor<2000xf32>")
                       .seconds,
                   4 * 4000 * (8.0625 / 32) / 1e6);
  auto measured = std::make_shared<Profile>();
  measured->nodes = 2;
  measured->ranksPerNode = 4;
  measured->operations["all_gather_delta node"] = {{2000, 7}};
  profile = measured;
  EXPECT_DOUBLE_EQ(cost("%g = fcdp.all_gather %a of @b over @world[node] range "
                        "0 delta @s : tensor<1000xbf16> to tensor<2000xbf16>",
                        "%a: tensor<1000xbf16>")
                       .getTotal(),
                   7);
}

TEST_F(CostModelTest, HostCopies) {
  expectCost(cost("fcdp.cache_store %a to @s : tensor<2000xbf16>",
                  "%a: tensor<2000xbf16>"),
             Resource::d2h, 1, 4 * 4000 / 1e8);
  expectCost(cost("%l = fcdp.cache_load @s : tensor<2000xbf16>"), Resource::h2d,
             1, 2 * 4000 / 1e8);
}

TEST_F(CostModelTest, HostMemoryBoundsCopies) {
  // 2 ranks on each of 2 NUMA nodes, each with half of the bandwidth.
  cluster.host.memoryBandwidth = 1e8;
  cluster.host.numaNodes = 2;
  Cost load = cost("%l = fcdp.cache_load @s : tensor<2000xbf16>");
  expectCost(load, Resource::h2d, 1, 2 * 4000 / 5e7);
  EXPECT_DOUBLE_EQ(load.hostMemory, load.seconds);
  // With more host bandwidth than the link has, only a part of it is needed.
  cluster.host.memoryBandwidth = 4e8;
  load = cost("%l = fcdp.cache_load @s : tensor<2000xbf16>");
  expectCost(load, Resource::h2d, 1, 2 * 4000 / 1e8);
  EXPECT_DOUBLE_EQ(load.hostMemory, 2 * 4000 / 2e8);
  // NUMA nodes without ranks do not count.
  cluster.host.numaNodes = 8;
  load = cost("%l = fcdp.cache_load @s : tensor<2000xbf16>");
  EXPECT_DOUBLE_EQ(load.hostMemory, 4000 / 5e7);
}

TEST_F(CostModelTest, DisksBoundCopiesOfStates) {
  // 4 ranks share the disks, and read and write at the same time.
  cluster.host.fileBandwidth = 1e6;
  expectCost(cost("%l = fcdp.state_load @on_disk at 0 : tensor<1000xf32>"),
             Resource::h2d, 1, 2 * 4 * 4000 / 1e6);
  expectCost(cost("fcdp.state_store %a to @on_disk at 0 : tensor<1000xf32>",
                  "%a: tensor<1000xf32>"),
             Resource::d2h, 1, 2 * 4 * 4000 / 1e6);
  // The link may be the slower one, and states in host memory need no disk.
  expectCost(cost("%l = fcdp.state_load @moment at 0 : tensor<1000xf32>"),
             Resource::h2d, 1, 2 * 4000 / 1e8);
  cluster.host.fileBandwidth = 1e12;
  expectCost(cost("%l = fcdp.state_load @on_disk at 0 : tensor<1000xf32>"),
             Resource::h2d, 1, 2 * 4000 / 1e8);
}

TEST_F(CostModelTest, TransfersAskForMemory) {
  // 1000 elements of 2 bytes are sent, and as many received.
  Cost gather = cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 "
                     ": tensor<1000xbf16> to tensor<2000xbf16>",
                     "%a: tensor<1000xbf16>");
  EXPECT_DOUBLE_EQ(gather.deviceMemory, 2 * 2000 / 1e9);
  EXPECT_EQ(gather.hostMemory, 0);
  // The sum accesses 5 more parts of 2000 elements.
  Cost reduction = cost("%g = fcdp.reduce_scatter %a of @b over @world[local] "
                        ": tensor<8000xf32> to tensor<2000xf32>",
                        "%a: tensor<8000xf32>");
  EXPECT_DOUBLE_EQ(reduction.deviceMemory, (2 * 3 + 5) * 8000 / 1e9);
  Cost store = cost("fcdp.cache_store %a to @s : tensor<2000xbf16>",
                    "%a: tensor<2000xbf16>");
  EXPECT_DOUBLE_EQ(store.deviceMemory, 4000 / 1e9);
  EXPECT_EQ(store.hostMemory, 0); // the bandwidth is not known
}

TEST_F(CostModelTest, OperatorsAskForMemoryWhileTheyReadAndWrite) {
  std::string types = "(tensor<100x200xbf16>, tensor<200x300xbf16>)";
  Cost product = cost("%c = aten.call \"aten.mm.default\"(self = %a, mat2 = "
                      "%b) : " +
                          types + " -> tensor<100x300xbf16>",
                      "%a: tensor<100x200xbf16>, %b: tensor<200x300xbf16>");
  double bytes = 2 * (100 * 200 + 200 * 300 + 100 * 300);
  EXPECT_DOUBLE_EQ(product.deviceMemory, bytes / 1e9);
  EXPECT_GT(product.seconds, product.deviceMemory);
}

TEST_F(CostModelTest, MemoryTraffic) {
  auto expectBytes = [](const Cost &cost, double bytes) {
    expectCost(cost, Resource::compute, 0.5, bytes / 1e9);
    EXPECT_DOUBLE_EQ(cost.deviceMemory, bytes / 1e9);
  };
  expectBytes(cost("%c = fcdp.cast_shard %a : tensor<1000xf32> to "
                   "tensor<1000xbf16>",
                   "%a: tensor<1000xf32>"),
              4000 + 2000);
  expectBytes(cost("%p = fcdp.pack @b(%a as @w) : (tensor<1000xbf16>) -> "
                   "tensor<8000xbf16>",
                   "%a: tensor<1000xbf16>"),
              2000 + 16000);
  // A gradient that a call has written in place is not copied.
  expectBytes(cost("%p = fcdp.pack @b(%a as @w) {in_place = [@w]} : "
                   "(tensor<1000xbf16>) -> tensor<8000xbf16>",
                   "%a: tensor<1000xbf16>"),
              16000 - 2000);
  expectBytes(cost("fcdp.accumulate %a into @b overwrite : tensor<1000xf32>",
                   "%a: tensor<1000xf32>"),
              2 * 4000);
  expectBytes(cost("fcdp.accumulate %a into @b add : tensor<1000xf32>",
                   "%a: tensor<1000xf32>"),
              3 * 4000);
  expectBytes(cost("fcdp.write_buffer %a to @m : tensor<100xf32>",
                   "%a: tensor<100xf32>"),
              2 * 400);
}

/// Other programs read and write these bytes to sum gradients in bf16 over
/// micro-batches. They have none of the plan's casts and packs.
TEST_F(CostModelTest, LocalSums) {
  const std::string pack = "%p = fcdp.pack @b(%a as @w) : (tensor<1000xbf16>) "
                           "-> tensor<8000xbf16>\n",
                    cast = "%s = fcdp.cast_shard %p : tensor<8000xbf16> to "
                           "tensor<8000xf32>\n",
                    argument = "%a: tensor<1000xbf16>";
  // Bytes of the sum, then of all three operations.
  auto count = [&](const std::string &mode) {
    double sum = cost(pack + cast + "fcdp.accumulate %s into @g " + mode +
                          " : tensor<8000xf32>",
                      argument)
                     .seconds;
    auto function = *module->getOps<func::FuncOp>().begin();
    double all = 0;
    for (Operation &op : function.getBody().front().without_terminator())
      all += CostModel(cluster).costOf(&op).seconds;
    return std::pair(1e9 * sum, 1e9 * all);
  };
  using Bytes = std::pair<double, double>;
  EXPECT_EQ(count("add"), Bytes(3 * 32000, 18000 + 48000 + 96000));
  cluster.localSums = {SummedBy::add, 4};
  EXPECT_EQ(count("add"), Bytes(2000 + 2 * 4000, 2000 + 2 * 4000));
  EXPECT_EQ(count("overwrite"), Bytes(2000 + 4000, 2000 + 4000));
  cluster.localSums = {SummedBy::add, 2};
  EXPECT_EQ(count("add"), Bytes(3 * 2000, 3 * 2000));
  EXPECT_EQ(count("overwrite"), Bytes(0, 0));
  // The product reads the sum, and writes it in place of the gradient.
  cluster.localSums = {SummedBy::product, 2};
  EXPECT_EQ(count("add"), Bytes(2000, 2000));
  EXPECT_EQ(count("overwrite"), Bytes(0, 0));
  cluster.localSums = {SummedBy::product, 4};
  EXPECT_EQ(count("add"), Bytes(4000 + 2000, 4000 + 2000));
  EXPECT_EQ(count("overwrite"), Bytes(2000, 2000));
  // A pack that is reduced, and a sum of what was, are those of the plan.
  EXPECT_EQ(1e9 * cost(pack, argument).seconds, 18000);
  EXPECT_EQ(1e9 * cost("fcdp.accumulate %a into @b add : tensor<1000xf32>",
                       "%a: tensor<1000xf32>")
                      .seconds,
            12000);
}

TEST_F(CostModelTest, UpdatesOnTheHost) {
  // The gradient of 500 elements goes there, and the shard comes back.
  const std::string store = "%g = fcdp.store_gradient @hosted piece 0 to 500 : "
                            "!fcdp.stored<tensor<500xbf16>>\n",
                    update =
                        "%s = fcdp.host_update %g : "
                        "!fcdp.stored<tensor<500xbf16>> of @hosted piece 0 to "
                        "500 scale 1.0 with #fcdp.adamw<lr = 1.0, beta1 = 0.5, "
                        "beta2 = 0.5, eps = 1.0, weight_decay = 0.0>\n",
                    load = "fcdp.load_shard %s to @hosted at 0 : "
                           "!fcdp.stored<tensor<500xbf16>>\n";
  expectCost(cost(store), Resource::d2h, 1, 4 * 2000 / 1e8);
  expectCost(cost(store + update + load), Resource::h2d, 1, 2 * 1000 / 1e8);
  // The processors' rate, or the memory's, in which the gradient is read, three
  // states are read and written, and the shard is written, bounds it.
  cluster.host.updateRate = 1000;
  expectCost(cost(store + update), Resource::host, 0, 0.5);
  cluster.host.memoryBandwidth = 1e4;
  Cost bound = cost(store + update);
  expectCost(bound, Resource::host, 0, 4 * 500 * (4 + 2 * 12 + 2) / 1e4);
  EXPECT_DOUBLE_EQ(bound.hostMemory, bound.seconds);
}

TEST_F(CostModelTest, Updates) {
  // For a rank's 1000 elements, the gradient is read once, and all else is read
  // and written.
  auto update = [&](std::string optimizer) {
    return cost("fcdp.shard_update @b scale 1.0 with #fcdp." + optimizer)
        .seconds;
  };
  EXPECT_DOUBLE_EQ(update("adamw<lr = 1.0, beta1 = 0.5, beta2 = 0.5, eps = "
                          "1.0, weight_decay = 0.0>"),
                   7 * 4000 / 1e9);
  EXPECT_DOUBLE_EQ(update("sgd<lr = 1.0, momentum = 0.0, dampening = 0.0, "
                          "weight_decay = 0.0, nesterov = false>"),
                   3 * 4000 / 1e9);
  EXPECT_DOUBLE_EQ(update("sgd<lr = 1.0, momentum = 0.5, dampening = 0.0, "
                          "weight_decay = 0.0, nesterov = false>"),
                   5 * 4000 / 1e9);
  EXPECT_DOUBLE_EQ(update("lion<lr = 1.0, beta1 = 0.5, beta2 = 0.5, "
                          "weight_decay = 0.0>"),
                   5 * 4000 / 1e9);
  // Muon's products are those of the rank with the largest matrices, the first:
  // n iterations of 4 s^2 l + 2 s^3 operations for a matrix of s x l.
  auto muon = [](int steps) {
    return "fcdp.shard_update @owned scale 1.0 with #fcdp.muon<lr = 1.0, "
           "weight_decay = 0.0, momentum = 0.9, nesterov = true, ns_a = 3.0, "
           "ns_b = -4.0, ns_c = 2.0, eps = 1.0e-07, ns_steps = " +
           std::to_string(steps) + ", adjust_lr_fn = original>";
  };
  EXPECT_DOUBLE_EQ(cost(muon(0)).seconds, 5 * 4000 / 1e9);
  double flops = 4 * 400 * 40 + 2 * 8000 + 4 * 100 * 10 + 2 * 1000;
  EXPECT_DOUBLE_EQ(cost(muon(3)).seconds,
                   5 * 4000 / 1e9 +
                       3 * flops / (0.5 * cluster.device.flops.bf16));
  // Adafactor reads and writes its own results 16 times for each of the 100
  // elements, and states of 20 and 40 elements before they are shared by 8
  // ranks.
  EXPECT_DOUBLE_EQ(cost("fcdp.shard_update @m0 scale 1.0 with #fcdp.adafactor<"
                        "lr = 1.0, beta2_decay = -0.8, eps2 = 1.0, d = 1.0, "
                        "weight_decay = 0.0>")
                       .seconds,
                   (19 * 400 + 2 * 4 * 60 / 8) / 1e9);
  // A master is read and written, and its rounding to bf16 is written.
  EXPECT_DOUBLE_EQ(cost("fcdp.shard_update @mastered scale 1.0 with #fcdp.sgd<"
                        "lr = 1.0, momentum = 0.0, dampening = 0.0, "
                        "weight_decay = 0.0, nesterov = false>")
                       .seconds,
                   (3 * 4000 + 2000) / 1e9);
  // With sharding none, each rank updates all 8000 elements.
  EXPECT_DOUBLE_EQ(cost("fcdp.shard_update @whole scale 1.0 with #fcdp.sgd<lr "
                        "= 1.0, momentum = 0.0, dampening = 0.0, weight_decay "
                        "= 0.0, nesterov = false>")
                       .seconds,
                   3 * 32000 / 1e9);
  // All gradients that the rank owns are read and written. A number crosses
  // both kinds of links.
  expectCost(cost("fcdp.unscale_gradients"), Resource::compute, 0.5 + 3 + 2,
             2 * (5 * 4000 + 32000) / 1e9);
  // The norm reads a shard of 1000 gradients of each bucket. Scaling reads and
  // writes the gradients that the rank owns. The norm crosses both kinds of
  // links.
  expectCost(cost("fcdp.clip_gradients to 1.0 scale 1.0"), Resource::compute,
             0.5 + 3 + 2, (6 * 4000 + 2 * (5 * 4000 + 32000)) / 1e9);
}

TEST_F(CostModelTest, NothingForWhatDoesNothing) {
  for (std::string body :
       {"%s = fcdp.read_shard @b : tensor<1000xf32>",
        "%m = fcdp.read_buffer @m : tensor<100xf32>",
        "%l = fcdp.read_loss_scale : tensor<f32>",
        "%f = fcdp.read_loss_weight : tensor<f32>",
        "%v = aten.call \"aten.view.default\"(self = %a, size = [10, 100]) : "
        "(tensor<1000xf32>) -> tensor<10x100xf32>",
        "%v = aten.call \"aten.empty.memory_format\"(size = [10]) : () -> "
        "tensor<10xf32>"})
    EXPECT_EQ(cost(body, "%a: tensor<1000xf32>").getTotal(), 0) << body;
}

TEST_F(CostModelTest, Products) {
  // At half of the type's peak rate, plus memory traffic of operands and
  // result.
  auto product = [](double flops, double rate, double bytes) {
    return std::max(flops / (rate * 0.5), bytes / 1e9);
  };
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.mm.default\"(self = %a, mat2 = %b) : "
           "(tensor<400x200xf32>, tensor<200x100xf32>) -> tensor<400x100xf32>",
           "%a: tensor<400x200xf32>, %b: tensor<200x100xf32>")
          .seconds,
      product(2 * 400.0 * 100 * 200, 2e9, 4 * 140000));
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.addmm.default\"(self = %a, mat1 = %b, mat2 = "
           "%c0) : (tensor<300xbf16>, tensor<300x300xbf16>, "
           "tensor<300x300xbf16>) -> tensor<300x300xbf16>",
           "%a: tensor<300xbf16>, %b: tensor<300x300xbf16>, %c0: "
           "tensor<300x300xbf16>")
          .seconds,
      product(2 * 300.0 * 300 * 300, 8e9, 2 * (3 * 90000 + 300)));
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.bmm.default\"(self = %a, mat2 = %b) : "
           "(tensor<5x300x300xf16>, tensor<5x300x300xf16>) -> "
           "tensor<5x300x300xf16>",
           "%a: tensor<5x300x300xf16>, %b: tensor<5x300x300xf16>")
          .seconds,
      product(5 * 2 * 300.0 * 300 * 300, 4e9, 2 * 15 * 90000));
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.linear.default\"(input = %a, weight = %b) : "
           "(tensor<3x100x300xf64>, tensor<300x300xf64>) -> "
           "tensor<3x100x300xf64>",
           "%a: tensor<3x100x300xf64>, %b: tensor<300x300xf64>")
          .seconds,
      product(2 * 300.0 * 300 * 300, 1e9, 8 * 3 * 90000));
}

TEST_F(CostModelTest, GroupedProductsDivideRowsAmongGroups) {
  // Each token is multiplied once, by the matrix of its expert.
  auto grouped = [&](StringRef left, StringRef right, StringRef result) {
    return cost(
        ("%c = aten.call \"aten._grouped_mm.default\"(self = %a, mat2 = "
         "%b, offs = %o) : (tensor<" +
         left + ">, tensor<" + right + ">, tensor<4xi32>) -> tensor<" + result +
         ">")
            .str(),
        ("%a: tensor<" + left + ">, %b: tensor<" + right +
         ">, %o: tensor<4xi32>")
            .str());
  };
  double seconds = 2 * 800.0 * 300 * 100 / (8e9 * 0.5);
  // Tokens by experts, experts by tokens, and the gradient of the experts.
  for (Cost cost : {grouped("800x300xbf16", "4x300x100xbf16", "800x100xbf16"),
                    grouped("4x100x300xbf16", "300x800xbf16", "100x800xbf16"),
                    grouped("300x800xbf16", "800x100xbf16", "4x300x100xbf16")})
    EXPECT_DOUBLE_EQ(cost.seconds, seconds);
  // Without offsets it is a batched product.
  EXPECT_DOUBLE_EQ(
      cost(
          "%c = aten.call \"aten._grouped_mm.default\"(self = %a, mat2 = %b) : "
          "(tensor<4x200x300xbf16>, tensor<4x300x100xbf16>) -> "
          "tensor<4x200x100xbf16>",
          "%a: tensor<4x200x300xbf16>, %b: tensor<4x300x100xbf16>")
          .seconds,
      seconds);
}

TEST_F(CostModelTest, SkewedExpertsFillTilesDifferently) {
  cluster.device.processors = 1;
  cluster.device.memoryBandwidth = 1e30;
  auto seconds = [&] {
    return cost("%c = aten.call \"aten._grouped_mm.default\"(self = %a, mat2 = "
                "%b, offs = %o) : (tensor<1200x512xbf16>, "
                "tensor<4x512x1024xbf16>, tensor<4xi32>) -> "
                "tensor<1200x1024xbf16>",
                "%a: tensor<1200x512xbf16>, %b: tensor<4x512x1024xbf16>, %o: "
                "tensor<4xi32>")
        .seconds;
  };
  double balanced = seconds();
  cluster.expertSkew = 2;
  // 11 rows of tiles in place of 12 (DeviceTest.cpp).
  EXPECT_DOUBLE_EQ(seconds() / balanced, 11.0 / 12);
}

TEST_F(CostModelTest, Convolutions) {
  // 64 filters of 3 x 3 x 64, applied at 2 x 8 x 8 positions.
  double once = 2 * 128.0 * 64 * 576 / (2e9 * 0.5);
  std::string tail =
      "stride = [1, 1], padding = [1, 1], dilation = [1, 1], transposed = "
      "false, output_padding = [0, 0], groups = 1";
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.convolution.default\"(input = %a, weight = "
           "%b, bias = none, " +
               tail +
               ") : (tensor<2x64x8x8xf32>, tensor<64x64x3x3xf32>) -> "
               "tensor<2x64x8x8xf32>",
           "%a: tensor<2x64x8x8xf32>, %b: tensor<64x64x3x3xf32>")
          .seconds,
      once);
  auto backward = [&](std::string mask, std::string undefined,
                      std::string results) {
    return cost("%c:2 = aten.call \"aten.convolution_backward.default\"("
                "grad_output = %g, input = %a, weight = %b, bias_sizes = "
                "none, " +
                    tail + ", output_mask = " + mask + ") " + undefined +
                    " : (tensor<2x64x8x8xf32>, tensor<2x64x8x8xf32>, "
                    "tensor<64x64x3x3xf32>) -> " +
                    results,
                "%g: tensor<2x64x8x8xf32>, %a: tensor<2x64x8x8xf32>, %b: "
                "tensor<64x64x3x3xf32>")
        .seconds;
  };
  EXPECT_DOUBLE_EQ(backward("[true, true, false]",
                            "{undefined = array<i64: 2>}",
                            "(tensor<2x64x8x8xf32>, tensor<64x64x3x3xf32>)"),
                   2 * once);
  EXPECT_DOUBLE_EQ(backward("[false, true, true]",
                            "{undefined = array<i64: 0>}",
                            "(tensor<64x64x3x3xf32>, tensor<64xf32>)"),
                   once);
}

TEST_F(CostModelTest, Attention) {
  // 2 x 3 heads, 512 queries and 512 keys of size 64.
  auto forward = [&](std::string causal) {
    return cost("%c:2 = aten.call "
                "\"aten._scaled_dot_product_flash_attention_for_cpu.default\"("
                "query = %q, key = %k, value = %v, is_causal = " +
                    causal +
                    ") : (tensor<2x3x512x64xf32>, tensor<2x3x512x64xf32>, "
                    "tensor<2x3x512x64xf32>) -> (tensor<2x3x512x64xf32>, "
                    "tensor<2x3x512xf32>)",
                "%q: tensor<2x3x512x64xf32>, %k: tensor<2x3x512x64xf32>, %v: "
                "tensor<2x3x512x64xf32>")
        .seconds;
  };
  double product = 2 * 6.0 * 512 * 512 * 64 / (2e9 * 0.5 * 0.4);
  EXPECT_DOUBLE_EQ(forward("false"), 2 * product);
  EXPECT_DOUBLE_EQ(forward("true"), product);
  // Attention's shares are of the peak rate, not of that of other products.
  cluster.device.attention.forward.points = {{128, 0.05}, {512, 0.1}};
  EXPECT_DOUBLE_EQ(forward("true"), 2 * product);
  // Its time is not below that of its memory traffic.
  cluster.device.memoryBandwidth = 1;
  EXPECT_DOUBLE_EQ(forward("true"), 4 * 6.0 * 512 * (4 * 64 + 1) / 0.5);
}

TEST_F(CostModelTest, WhatWasMeasuredStandsForTheEstimate) {
  Profile measured;
  measured.nodes = 2;
  measured.ranksPerNode = 4;
  measured.operators["aten.mm.default(f32[4,2], f32[2,1])"] = 7;
  measured.operators["aten.view.default(bool[4])"] = 0.25;
  measured.operations["all_gather node"] = {{1000, 10}, {3000, 20}};
  measured.operations["reduce_scatter local"] = {{8000, 40}};
  measured.operations["cache_store"] = {{4000, 0.5}};
  measured.operations["shard_update"] = {{4000, 9}};
  profile = std::make_shared<const Profile>(measured);
  // The latency stays, because it does not occupy a link.
  expectCost(cost("%c = aten.call \"aten.mm.default\"(self = %a, mat2 = %b) : "
                  "(tensor<4x2xf32>, tensor<2x1xf32>) -> tensor<4x1xf32>",
                  "%a: tensor<4x2xf32>, %b: tensor<2x1xf32>"),
             Resource::compute, 0.5, 6.5);
  expectCost(cost("%c = aten.call \"aten.view.default\"(self = %a, size = "
                  "[2, 2]) : (tensor<4xi1>) -> tensor<2x2xi1>",
                  "%a: tensor<4xi1>"),
             Resource::compute, 0.25, 0);
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 : "
                  "tensor<1000xbf16> to tensor<2000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3, 12);
  // Profiles list a reduction by the bytes of its result.
  expectCost(cost("%g = fcdp.reduce_scatter %a of @b over @world[local] : "
                  "tensor<8000xf32> to tensor<2000xf32>",
                  "%a: tensor<8000xf32>"),
             Resource::intra, 2 + 5 * 8000 / 1e9, 38 - 5 * 8000 / 1e9);
  expectCost(cost("fcdp.cache_store %a to @s : tensor<2000xbf16>",
                  "%a: tensor<2000xbf16>"),
             Resource::d2h, 0.5, 0);
  expectCost(cost("fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 1.0, "
                  "momentum = 0.0, dampening = 0.0, weight_decay = 0.0, "
                  "nesterov = false>"),
             Resource::compute, 0.5, 8.5);
}

TEST_F(CostModelTest, AMeasuredTransferIsNotFasterThanItsLink) {
  Profile measured;
  measured.nodes = 2;
  measured.ranksPerNode = 4;
  measured.operations["all_gather node"] = {{2000, 3.001}};
  profile = std::make_shared<const Profile>(measured);
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 : "
                  "tensor<1000xbf16> to tensor<2000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3, 4 * 2000 / 1e6);
}

TEST_F(CostModelTest, WhatWasNotMeasuredIsEstimated) {
  Profile measured;
  measured.nodes = 4; // collectives of another job do not apply
  measured.ranksPerNode = 4;
  measured.operators["aten.mm.default(f32[4,2], f32[2,1])"] = 7;
  measured.operations["all_gather node"] = {{2000, 10}};
  profile = std::make_shared<const Profile>(measured);
  expectCost(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 : "
                  "tensor<1000xbf16> to tensor<2000xbf16>",
                  "%a: tensor<1000xbf16>"),
             Resource::inter, 3, 4 * 2000 / 1e6);
  // Types that were not measured.
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.mm.default\"(self = %a, mat2 = %b) : "
           "(tensor<4x2xbf16>, tensor<2x1xbf16>) -> tensor<4x1xbf16>",
           "%a: tensor<4x2xbf16>, %b: tensor<2x1xbf16>")
          .seconds,
      2 * 14 / 1e9); // its memory traffic takes longer than its arithmetic
}

// The arithmetic is the same as on the CPU. Only the other operands and results
// of the kernels differ.
TEST_F(CostModelTest, AttentionOnCuda) {
  const std::string q = "tensor<2x3x512x64xbf16>";
  auto seconds = [&](const std::string &call, const std::string &types) {
    return cost(call + " : (" + types + ")",
                "%q: " + q +
                    ", %l: tensor<2x3x512xf32>, %s: tensor<2xui64>, "
                    "%o: tensor<ui64>")
        .seconds;
  };
  double product = 2 * 6.0 * 512 * 512 * 64 / 2;
  double rate = 8e9 * 0.5 * 0.4;
  EXPECT_DOUBLE_EQ(
      seconds("%c:5 = aten.call "
              "\"aten._scaled_dot_product_flash_attention.default\"(query = "
              "%q, key = %q, value = %q, dropout_p = 0.0, is_causal = true) "
              "{undefined = array<i64: 2, 3, 4, 5>}",
              q + ", " + q + ", " + q + ") -> (" + q +
                  ", tensor<2x3x512xf32>, tensor<2xui64>, tensor<ui64>, "
                  "tensor<0xbf16>"),
      2 * product / rate);
  EXPECT_DOUBLE_EQ(
      seconds("%c:3 = aten.call "
              "\"aten._scaled_dot_product_flash_attention_backward.default\"("
              "grad_out = %q, query = %q, key = %q, value = %q, out = %q, "
              "logsumexp = %l, cum_seq_q = none, cum_seq_k = none, max_q = "
              "512, max_k = 512, dropout_p = 0.0, is_causal = true, "
              "philox_seed = %s, philox_offset = %o)",
              q + ", " + q + ", " + q + ", " + q + ", " + q +
                  ", tensor<2x3x512xf32>, tensor<2xui64>, tensor<ui64>) -> (" +
                  q + ", " + q + ", " + q),
      5 * product / rate);
}

/// Sequences count as if all had the greatest length: 2 of 512 tokens.
TEST_F(CostModelTest, AttentionOverSequences) {
  const std::string q = "tensor<1024x3x64xbf16>", l = "tensor<3x1024xf32>",
                    b = "tensor<9xi32>", s = "tensor<2xui64>, tensor<ui64>",
                    lengths = "cum_seq_q = %b, cum_seq_k = %b, max_q = 512, "
                              "max_k = 512, dropout_p = 0.0, is_causal = true";
  auto seconds = [&](const std::string &call) {
    return cost(call, "%q: " + q + ", %l: " + l + ", %b: " + b +
                          ", %s: tensor<2xui64>, %o: tensor<ui64>")
        .seconds;
  };
  double product = 2 * 6.0 * 512 * 512 * 64 / 2;
  double rate = 8e9 * 0.5 * 0.4;
  EXPECT_DOUBLE_EQ(
      seconds("%c:5 = aten.call \"aten._flash_attention_forward.default\"("
              "query = %q, key = %q, value = %q, " +
              lengths + ", return_debug_mask = false) : (" + q + ", " + q +
              ", " + q + ", " + b + ", " + b + ") -> (" + q + ", " + l + ", " +
              s + ", tensor<0xbf16>)"),
      2 * product / rate);
  EXPECT_DOUBLE_EQ(
      seconds("%c:3 = aten.call \"aten._flash_attention_backward.default\"("
              "grad_out = %q, query = %q, key = %q, value = %q, out = %q, "
              "logsumexp = %l, " +
              lengths + ", rng_state = %s, unused = %o) : (" + q + ", " + q +
              ", " + q + ", " + q + ", " + q + ", " + l + ", " + b + ", " + b +
              ", " + s + ") -> (" + q + ", " + q + ", " + q + ")"),
      5 * product / rate);
}

/// A kernel that is given a mask computes the whole square, at a rate of its
/// own.
TEST_F(CostModelTest, MaskedAttention) {
  cluster.device.attention.masked = 0.5;
  EXPECT_DOUBLE_EQ(
      cost("%c:2 = aten.call "
           "\"aten._scaled_dot_product_flash_attention_for_cpu.default\"("
           "query = %q, key = %q, value = %q, attn_mask = %m) : "
           "(tensor<2x3x512x64xf32>, tensor<2x3x512x64xf32>, "
           "tensor<2x3x512x64xf32>, tensor<512x512xf32>) -> "
           "(tensor<2x3x512x64xf32>, tensor<2x3x512xf32>)",
           "%q: tensor<2x3x512x64xf32>, %m: tensor<512x512xf32>")
          .seconds,
      2 * (2 * 6.0 * 512 * 512 * 64) / (2e9 * 0.5 * 0.4 * 0.5));
}

/// The host issues views, operators and transfers, each in its time.
TEST_F(CostModelTest, IssueTimes) {
  cluster.host.issue.op = 1;
  cluster.host.issue.view = 2;
  cluster.host.issue.transfer = 3;
  EXPECT_EQ(cost("%c = aten.call \"aten.add.Tensor\"(self = %a, other = %a) : "
                 "(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>",
                 "%a: tensor<8xf32>")
                .issue,
            1);
  Cost view = cost("%c = aten.call \"aten.view.default\"(self = %a, size = "
                   "[2, 4]) : (tensor<8xf32>) -> tensor<2x4xf32>",
                   "%a: tensor<8xf32>");
  EXPECT_EQ(view.issue, 2);
  EXPECT_EQ(view.getTotal(), 0);
  const std::string load = "%l = fcdp.cache_load @s : tensor<2000xbf16>";
  EXPECT_EQ(cost(load).issue, 3);
  cluster.host.issue.copy = 4;
  EXPECT_EQ(cost(load).issue, 4);
  EXPECT_EQ(cost("fcdp.state_store %a to @moment at 0 : tensor<8xf32>",
                 "%a: tensor<8xf32>")
                .issue,
            4);
  EXPECT_EQ(cost("%g = fcdp.all_gather %a of @b over @world[node] range 0 : "
                 "tensor<1000xbf16> to tensor<2000xbf16>",
                 "%a: tensor<1000xbf16>")
                .issue,
            3);
}

/// Operators take longer in training than alone, and all wait for the slowest
/// of 8 devices. A measured time includes that.
TEST_F(CostModelTest, SustainedRates) {
  const std::string add = "%c = aten.call \"aten.add.Tensor\"(self = %a, other "
                          "= %a) : (tensor<1000xf32>, tensor<1000xf32>) -> "
                          "tensor<1000xf32>",
                    argument = "%a: tensor<1000xf32>";
  double alone = cost(add, argument).seconds;
  cluster.device.sustained = 0.8;
  EXPECT_DOUBLE_EQ(cost(add, argument).seconds, alone / 0.8);
  cluster.device.variation = 0.1;
  EXPECT_DOUBLE_EQ(cost(add, argument).seconds,
                   alone * cluster.device.getSlowestFactor(8) / 0.8);
  auto measured = std::make_shared<Profile>();
  measured->operators["aten.add.Tensor(f32[1000], f32[1000])"] = 7;
  profile = measured;
  EXPECT_DOUBLE_EQ(cost(add, argument).getTotal(), 7);
}

/// Compute that was measured beside collectives is not slowed down again.
TEST_F(CostModelTest, CollectivesHoldProcessorsUnlessMeasured) {
  cluster.device.collectiveShare = 0.25;
  const std::string gather = "%g = fcdp.all_gather %a of @b over @world[node] "
                             "range 0 : tensor<1000xbf16> to tensor<2000xbf16>",
                    argument = "%a: tensor<1000xbf16>";
  EXPECT_EQ(cost(gather, argument).processors, 0.25);
  // 'auto' compares plans by the costs of collectives that are no operations.
  CostModel model(cluster);
  for (const Cost &collective :
       {model.costOfGather(Axis::node, 2, 1000),
        model.costOfReduction(Axis::local, 4, 1000),
        costOfDeltaGather(model.getCluster(), 2, 1000),
        costOfCodedReduction(model.getCluster(), 2, 1000, 2, Wire::coded,
                             Target::cpu),
        model.costOfFlatGather(1000), model.costOfFlatReduction(1000)})
    EXPECT_EQ(collective.processors, 0.25);
  EXPECT_EQ(model.costOfStore(1000).processors, 0);
  // A link may have a share of its own.
  Cluster other = cluster;
  other.links[LinkId::Inter].collectiveShare = 0.5;
  CostModel links(other);
  EXPECT_EQ(links.costOfGather(Axis::node, 2, 1000).processors, 0.5);
  EXPECT_EQ(links.costOfReduction(Axis::local, 4, 1000).processors, 0.25);
  profile = std::make_shared<Profile>();
  EXPECT_EQ(cost(gather, argument).processors, 0);
}

/// A GPU reads the residuals of 5e5 gradients for each of two other nodes from
/// host memory, and writes them back.
TEST_F(CostModelTest, GpusRoundAsFastAsResidualsAreCopied) {
  cluster.messages.rate = 1e300;
  cluster.host.memoryBandwidth = std::nullopt;
  cluster.links[LinkId::D2H].bandwidth = 1e4; // the slower way
  auto latency = [&](Target target) {
    return costOfCodedReduction(cluster, 3, 1e6, 2, Wire::int8, target).latency;
  };
  const double copies =
      costOfTransfer(cluster, cluster.links[LinkId::D2H], 4e6).seconds;
  EXPECT_GT(copies, 0);
  EXPECT_DOUBLE_EQ(latency(Target::cuda) - latency(Target::cpu), copies);
  cluster.host.memoryBandwidth = 1e2;
  EXPECT_DOUBLE_EQ(latency(Target::cuda) - latency(Target::cpu),
                   cluster.getHostMemoryTime(8e6));
}

TEST_F(CostModelTest, FusedOperators) {
  cluster.fusion = Fusion::pointwise;
  const std::string add = "aten.call \"aten.add.Tensor\"(self = ",
                    types = ") : (tensor<1000xf32>, tensor<1000xf32>) -> "
                            "tensor<1000xf32>\n",
                    argument =
                        "%a: tensor<1000xf32>, %b: tensor<1000xf32>, %m: "
                        "tensor<4x4xf32>";
  // The last of a kernel is launched. It reads only what comes from outside,
  // and nothing reads its result here.
  Cost last = cost("%c = " + add + "%a, other = %b" + types + "%d = " + add +
                       "%c, other = %b" + types,
                   argument);
  EXPECT_DOUBLE_EQ(last.latency, 0.5);
  EXPECT_DOUBLE_EQ(last.seconds, 4000 / 1e9);
  // One before it is not launched and writes nothing.
  auto inner = [&](const std::string &between, const std::string &reader) {
    cost("%c = " + add + "%a, other = %b" + types + between + reader, argument);
    auto function = *module->getOps<func::FuncOp>().begin();
    return CostModel(cluster).costOf(&function.getBody().front().front());
  };
  const std::string reader = "%d = " + add + "%c, other = %b" + types;
  EXPECT_DOUBLE_EQ(inner("", reader).getTotal(), 8000 / 1e9);
  EXPECT_EQ(inner("", reader).latency, 0);
  // With a reader of another size, a reader after a product, or no reader it
  // writes.
  EXPECT_DOUBLE_EQ(
      inner("", "%d = aten.call \"aten.cat.default\"(tensors = [%c, %b]) : "
                "(tensor<1000xf32>, tensor<1000xf32>) -> tensor<2000xf32>\n")
          .seconds,
      12000 / 1e9);
  EXPECT_DOUBLE_EQ(
      inner("%p = aten.call \"aten.mm.default\"(self = %m, mat2 = %m) : "
            "(tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n",
            reader)
          .seconds,
      12000 / 1e9);
  EXPECT_DOUBLE_EQ(inner("", "").latency, 0.5);
}

TEST_F(CostModelTest, BytesOfOtherOperators) {
  // Both operands are read and the result is written.
  expectCost(cost("%c = aten.call \"aten.add.Tensor\"(self = %a, other = %b) : "
                  "(tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>",
                  "%a: tensor<1000xf32>, %b: tensor<1000xf32>"),
             Resource::compute, 0.5, 12000 / 1e9);
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.nobody_knows.default\"(self = %a) : "
           "(tensor<1000xf32>) -> tensor<1000xf32>",
           "%a: tensor<1000xf32>")
          .seconds,
      8000 / 1e9);
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.full.default\"(size = [1000], fill_value = "
           "1) : () -> tensor<1000xf32>")
          .seconds,
      4000 / 1e9);
  // One of 500 numbers in each row is read, and the rows' labels.
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.nll_loss_forward.default\"(self = %a, target "
           "= %b) : (tensor<10x500xf32>, tensor<10xi64>) -> tensor<10xf32>",
           "%a: tensor<10x500xf32>, %b: tensor<10xi64>")
          .seconds,
      (2 * 40 + 80) / 1e9);
  // Three products, and the operands, the results and 9 passes over logits. The
  // workspace is no traffic of its own.
  EXPECT_DOUBLE_EQ(
      cost("%c:5 = aten.call \"fcdp.chunked_loss.default\"(hidden = %a, "
           "weight = %b, bias = none, labels = %y, gradient = %g, rows = 16, "
           "reduction = 1, ignore_index = -100, output_mask = [true, true, "
           "false], workspace = 1728) {undefined = array<i64: 2, 5>} : "
           "(tensor<32x4xf32>, tensor<8x4xf32>, tensor<32xi64>, tensor<f32>) "
           "-> (tensor<f32>, tensor<f32>, tensor<32x4xf32>, tensor<8x4xf32>, "
           "tensor<1728xui8>)",
           "%a: tensor<32x4xf32>, %b: tensor<8x4xf32>, %y: tensor<32xi64>, "
           "%g: tensor<f32>")
          .seconds,
      (2 * (512 + 128) + 256 + 3 * 4 + 32 * 8 * 4 * 10 + 2 * 8 * 4 * 4) / 1e9);
  // The bytes and the matrix.
  EXPECT_DOUBLE_EQ(
      cost(
          "%c = aten.call \"fcdp.unpack_nf4.default\"(packed = %a, size = [64, "
          "64], dtype = bf16) : (tensor<2304xui8>) -> tensor<64x64xbf16>",
          "%a: tensor<2304xui8>")
          .seconds,
      (2304 + 2 * 4096) / 1e9);
  // 10 rows of the table and their indices are read, not the whole table.
  EXPECT_DOUBLE_EQ(
      cost("%c = aten.call \"aten.embedding.default\"(weight = %a, indices = "
           "%b) : (tensor<50000x100xf32>, tensor<10xi64>) -> "
           "tensor<10x100xf32>",
           "%a: tensor<50000x100xf32>, %b: tensor<10xi64>")
          .seconds,
      (2 * 4000 + 80) / 1e9);
}

TEST_F(CostModelTest, NoSizesNoCrash) {
  for (std::string type : {"tensor<?x?xf32>", "tensor<0x0xf32>"}) {
    double seconds =
        cost("%c = aten.call \"aten.mm.default\"(self = %a, mat2 = %a0) : (" +
                 type + ", " + type + ") -> " + type,
             "%a: " + type + ", %a0: " + type)
            .seconds;
    EXPECT_EQ(seconds, 0) << type;
  }
}
