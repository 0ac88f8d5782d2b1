// SPDX-License-Identifier: Apache-2.0
//
// Logs of nccl-tests, and the tables that they become.

#include "fcdp/Cluster/TableImport.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
constexpr auto kGather = CollectiveKind::allGather;

/// Returns lines of ranks, `ranks` on each of `nodes` hosts. `getGroup` gives
/// the group of a rank.
std::string listRanks(
    int64_t nodes, int64_t ranks,
    llvm::function_ref<int64_t(int64_t)> getGroup = [](int64_t) {
      return int64_t(0);
    }) {
  std::string text = "# Using devices\n";
  for (int64_t rank = 0; rank < nodes * ranks; ++rank)
    text += "#  Rank " + std::to_string(rank) + " Group " +
            std::to_string(getGroup(rank)) + " Pid 100 on host-" +
            std::to_string(rank / ranks) + " device  " +
            std::to_string(rank % ranks) + " [0000:1a:00] NVIDIA H100\n";
  return text;
}

constexpr char kColumns[] =
    R"(#
#                                                              out-of-place                       in-place          
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       
)";

/// A row of an all-gather over 16 ranks: 1 GB in 6 ms.
constexpr char kRow[] = "  1000000000      15625000     float    none      -1  "
                        " 6000.0  166.67  156.25      0   5000.0  200.00  "
                        "187.50      0\n";

std::string gatherLog() {
  return "# Collective test starting: all_gather_perf\n"
         "# nThread 1 nGpus 1 minBytes 1000000000 maxBytes 1000000000\n#\n" +
         listRanks(2, 8) + kColumns + kRow +
         "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 171.9\n";
}

std::vector<NcclTest> parse(const std::string &text,
                            llvm::StringRef name = "a.log",
                            std::optional<NcclProgram> program = {}) {
  auto tests = parseNcclLog({text, name}, program);
  if (tests)
    return *tests;
  ADD_FAILURE() << llvm::toString(tests.takeError());
  return {};
}

std::string complain(const std::string &text,
                     std::optional<NcclProgram> program = {}) {
  auto tests = parseNcclLog({text, "a.log"}, program);
  return tests ? "" : llvm::toString(tests.takeError());
}

/// Returns `text` with its first `from` replaced.
std::string change(std::string text, const std::string &from,
                   const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}
} // namespace

TEST(NcclLog, ReadsTheNewestFormat) {
  auto tests = parse(gatherLog());
  ASSERT_EQ(tests.size(), 1u);
  EXPECT_EQ(tests[0].program, NcclProgram::allGather);
  EXPECT_EQ(tests[0].set, RankSet::world);
  EXPECT_EQ(tests[0].nodes, 2);
  EXPECT_EQ(tests[0].ranksPerNode, 8);
  ASSERT_EQ(tests[0].rows.size(), 1u);
  EXPECT_EQ(tests[0].rows[0].bytes, 1e9);
  // Out of place.
  EXPECT_DOUBLE_EQ(tests[0].rows[0].busBandwidth, 15.0 / 16 * 1e9 / 6e-3);
}

TEST(NcclLog, ReadsAnOldAllReduce) {
  // No groups, no column `root`, and lines of NCCL between others.
  auto tests = parse(
      R"($ mpirun -np 2 ./build/all_reduce_perf -b 8 -e 128M
# nThread 1 nGpus 1 minBytes 8 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
# Using devices
#   Rank  0 Pid   1320 on ip-172-31-20-228 device  0 [0x00] Tesla V100-SXM2-16GB
#   Rank  1 Pid   2066 on ip-172-31-22-230 device  0 [0x00] Tesla V100-SXM2-16GB
ip-172-31-20-228:1320:1337 [0] NCCL INFO NET/Socket : Using [0]ens5
#
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum    45.00    0.00    0.00  0e+00    38.17    0.00    0.00  0e+00
ip-172-31-20-228:1320:1337 [0] NCCL INFO Connected all trees
   100000000      25000000     float     sum   100000    1.00    1.00    N/A    90000    1.11    1.11    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.5
)");
  ASSERT_EQ(tests.size(), 1u);
  EXPECT_EQ(tests[0].program, NcclProgram::allReduce);
  EXPECT_EQ(tests[0].nodes, 2);
  EXPECT_EQ(tests[0].ranksPerNode, 1);
  ASSERT_EQ(tests[0].rows.size(), 2u);
  // The time says more than the two decimals of the bandwidth.
  EXPECT_DOUBLE_EQ(tests[0].rows[0].busBandwidth, 8 / 45e-6);
  EXPECT_DOUBLE_EQ(tests[0].rows[1].busBandwidth, 1e9);
}

TEST(NcclLog, OldGathersHaveNoReduction) {
  // Neither `redop` nor `root` is printed; algbw has the factor already.
  std::string log = change(gatherLog(), "float    none      -1", "float");
  log = change(log, "  166.67  156.25", "  156.25  156.25");
  EXPECT_EQ(parse(log)[0].rows.size(), 1u);
}

TEST(NcclLog, ReadsLabelsTimestampsAndReports) {
  std::string labelled;
  llvm::SmallVector<llvm::StringRef> lines;
  std::string log = gatherLog();
  llvm::StringRef(log).split(lines, '\n');
  for (llvm::StringRef line : lines)
    labelled += "[1,0]<stdout>:" + line.str() + "\r\n";
  EXPECT_EQ(parse(labelled)[0].rows.size(), 1u);
  labelled.clear();
  for (llvm::StringRef line : lines)
    labelled += " 0: " + line.str() + "\n";
  EXPECT_EQ(parse(labelled)[0].rows.size(), 1u);
  std::string stamped = change(log,
                               "busbw #wrong     time   algbw   busbw "
                               "#wrong",
                               "busbw #wrong     time   algbw   busbw #wrong "
                               "          timestamp");
  stamped = change(stamped, "187.50      0\n",
                   "187.50      0  2025-03-14 10:00:00\n");
  EXPECT_EQ(parse(stamped)[0].rows.size(), 1u);
}

TEST(NcclLog, SkipsSizesBelowAnElementARank) {
  std::string log = change(
      gatherLog(), kRow,
      std::string("           0             0     float    none      -1     "
                  "6.10    0.00    0.00      0     6.00    0.00    0.00      "
                  "0\n") +
          kRow);
  EXPECT_EQ(parse(log)[0].rows.size(), 1u);
}

TEST(NcclLog, GroupsSayTheSetOfRanks) {
  auto withRanks = [](const std::string &ranks, const std::string &row) {
    return "# Collective test starting: all_gather_perf\n" + ranks + kColumns +
           row;
  };
  // 8 groups of 2 ranks: 1 GB in 5 ms is a bus bandwidth of 100 GB/s.
  std::string row =
      change(kRow, "6000.0  166.67  156.25", "5000.0  200.00  100.00");
  auto tests = parse(
      withRanks(listRanks(2, 8, [](int64_t rank) { return rank % 8; }), row));
  EXPECT_EQ(tests[0].set, RankSet::node);
  EXPECT_EQ(tests[0].nodes, 2);
  EXPECT_EQ(tests[0].ranksPerNode, 8);
  EXPECT_EQ(tests[0].rows[0].busBandwidth, 100e9);
  row = change(kRow, "6000.0  166.67  156.25", "7000.0  142.86  125.00");
  for (const std::string &ranks :
       {listRanks(1, 8),
        listRanks(2, 8, [](int64_t rank) { return rank / 8; })}) {
    tests = parse(withRanks(ranks, row));
    EXPECT_EQ(tests[0].set, RankSet::local);
    EXPECT_EQ(tests[0].nodes, 1);
  }
  EXPECT_EQ(complain(withRanks(
                listRanks(2, 8, [](int64_t rank) { return rank % 4; }), row)),
            "a.log:23: error: expected one group of all ranks, a group for "
            "each host, or groups with one rank on each host");
}

TEST(NcclLog, ReadsSeveralRuns) {
  std::string two = gatherLog();
  two += "# Collective test concluded: all_gather_perf\n";
  two += change(gatherLog(), "all_gather_perf", "reduce_scatter_perf");
  auto tests = parse(two);
  ASSERT_EQ(tests.size(), 2u);
  EXPECT_EQ(tests[0].program, NcclProgram::allGather);
  EXPECT_EQ(tests[1].program, NcclProgram::reduceScatter);
}

TEST(NcclLog, TheNameMayBeThatOfTheFile) {
  std::string log = change(gatherLog(), "all_gather_perf", "");
  EXPECT_EQ(parse(log, "runs/reduce_scatter-2.txt")[0].program,
            NcclProgram::reduceScatter);
  EXPECT_EQ(parse(log, "a.log", NcclProgram::allGather)[0].program,
            NcclProgram::allGather);
  EXPECT_EQ(
      complain(change(log, "# nThread", "$ module load nccl_perf\n# nThread")),
      "a.log:26: error: expected the name of a program as "
      "'all_gather_perf' before its results; give --collective");
  EXPECT_EQ(complain(change(gatherLog(), "all_gather_perf", "alltoall_perf")),
            "a.log:25: error: expected results of all_gather_perf, "
            "reduce_scatter_perf or all_reduce_perf, got those of "
            "alltoall_perf");
}

TEST(NcclLog, RefusesWhatContradictsItself) {
  EXPECT_EQ(complain(""), "a.log:1: error: expected results of nccl-tests ('# "
                          "size count type ...' and rows), got none");
  EXPECT_EQ(complain(change(gatherLog(), listRanks(2, 8), "")),
            "a.log:8: error: expected ranks ('# Rank 0 ... on HOST device 0') "
            "before results");
  EXPECT_EQ(complain(change(gatherLog(), listRanks(2, 8), listRanks(1, 1))),
            "a.log:10: error: expected 2 or more ranks in a group");
  EXPECT_EQ(complain(change(gatherLog(), "Rank 1 ", "Rank 0 ")),
            "a.log:6: error: expected rank 0 once: processes of programs that "
            "were built without MPI=1 do not work together");
  EXPECT_EQ(complain(change(gatherLog(), "host-1", "host-0")),
            "a.log:25: error: expected as many ranks on each host");
  EXPECT_EQ(complain(change(gatherLog(), "all_gather", "all_reduce")),
            "a.log:25: error: expected a busbw of 312.50 GB/s for 1000000000 "
            "bytes in 6000.00 us on 16 ranks, got 156.25: is this the right "
            "collective, and are all ranks listed?");
  EXPECT_EQ(complain(change(gatherLog(),
                            "5000.0  200.00  "
                            "187.50      0",
                            "")),
            "a.log:25: error: expected a row of 13 columns, got 9");
  EXPECT_EQ(complain(change(gatherLog(), "6000.0", "long")),
            "a.log:25: error: expected a time in microseconds, got 'long'");
  EXPECT_EQ(complain(change(gatherLog(), "6000.0", "0.00")),
            "a.log:25: error: expected a time above 0");
  EXPECT_EQ(complain(change(gatherLog(), "0 OK", "7 FAILED")),
            "a.log:26: error: expected right results, but nccl-tests found "
            "values out of bounds");
}

namespace {
NcclTest makeTest(NcclProgram program, RankSet set, int64_t nodes,
                  std::vector<NcclTest::Row> rows) {
  return {program, set, nodes, 8, std::move(rows)};
}
} // namespace

TEST(TableImport, TheMedianOfEqualSizesCounts) {
  auto imported = llvm::cantFail(tabulate(
      {makeTest(NcclProgram::allGather, RankSet::world, 2,
                {{1e6, 1e9}, {1e6, 9e9}, {1e6, 2e9}}),
       makeTest(NcclProgram::allReduce, RankSet::world, 2, {{1e6, 5e9}}),
       makeTest(NcclProgram::allReduce, RankSet::local, 1, {{1e6, 7e9}})}));
  const CollectiveTables &tables = imported.tables;
  EXPECT_EQ(tables.ranksPerNode, 8);
  EXPECT_EQ(tables.world.allGather.read(1e6, 2)->rate, 2e9);
  // An all-reduce is used only if the log has nothing else.
  EXPECT_TRUE(tables.world.reduceScatter.empty());
  EXPECT_EQ(tables.local.allGather.read(1e6, 1)->rate, 7e9);
  EXPECT_EQ(tables.local.reduceScatter.read(1e6, 1)->rate, 7e9);
  EXPECT_EQ(toYaml(imported, "x"),
            R"(collectives: # rows of [bytes, nodes, bytes per second of a rank]
  # x
  world:
    all_gather:
      - [1000000, 2, 2e+09]
  local: # of an all-reduce, half of its time for each
    all_gather:
      - [1000000, 1, 7e+09]
    reduce_scatter:
      - [1000000, 1, 7e+09]
)");
}

TEST(TableImport, RefusesDifferentNodes) {
  NcclTest four = makeTest(NcclProgram::allGather, RankSet::world, 2, {});
  NcclTest eight = four;
  four.ranksPerNode = 4;
  auto imported = tabulate({four, eight});
  ASSERT_FALSE(static_cast<bool>(imported));
  EXPECT_EQ(llvm::toString(imported.takeError()),
            "expected 4 ranks a node in all logs, got 8");
}

namespace {
constexpr char kDescription[] = R"(# Ours.
name: ours # as it is
nodes: 2
ranks_per_node: 8
device:
  memory: 48e9
  memory_bandwidth: 696e9
  flops: {f64: 0.5e12, f32: 37e12, bf16: 150e12, f16: 150e12}
  compute_efficiency: 0.6
  memory_efficiency: 0.8
  launch_latency: 5e-6
host:
  memory: 512e9
inter: {bandwidth: 12.5e9, latency: 10e-6, sharing: node}
intra: {bandwidth: 20e9, latency: 0, sharing: rank}
)";
constexpr char kRest[] = R"(# Copies.
h2d: {bandwidth: 13e9, latency: 1e-5, sharing: rank}
d2h: {bandwidth: 13e9, latency: 1e-5, sharing: rank}
)";

ImportedTables makeTables() {
  return llvm::cantFail(tabulate(
      {makeTest(NcclProgram::allGather, RankSet::world, 2, {{1e6, 1e9}})}));
}
} // namespace

TEST(TableImport, MergesAndKeepsComments) {
  std::string text = llvm::cantFail(mergeTables(
      {std::string(kDescription) + kRest, "c.yaml"}, makeTables(), "x"));
  EXPECT_EQ(text,
            std::string(kDescription) + kRest + toYaml(makeTables(), "x"));
  // Older rows stay, unless they are of the same size and nodes.
  std::string old = std::string(kDescription) +
                    "collectives:\n  world:\n    all_gather: [[1e6, 2, 7],\n\n"
                    "      [1e6, 4, 8]]\n" +
                    kRest;
  text = llvm::cantFail(mergeTables({old, "c.yaml"}, makeTables(), "x"));
  ImportedTables both = makeTables();
  both.tables.world.allGather.set(4, 1e6, 8);
  EXPECT_EQ(text, std::string(kDescription) + kRest + toYaml(both, "x"));
}

TEST(TableImport, RefusesOtherDescriptions) {
  auto complainOf = [](std::string text) {
    auto merged = mergeTables({text, "c.yaml"}, makeTables(), "x");
    return merged ? "" : llvm::toString(merged.takeError());
  };
  EXPECT_EQ(complainOf(change(std::string(kDescription) + kRest,
                              "ranks_per_node: 8", "ranks_per_node: 4")),
            "expected logs with the 4 ranks a node of 'c.yaml', got 8");
  EXPECT_EQ(complainOf("name: x\n").find("c.yaml:1: error: "), 0u);
  EXPECT_EQ(complainOf(std::string(kDescription) + kRest + "...\n")
                .find("expected the keys of 'c.yaml' at the beginnings of "
                      "lines"),
            0u);
}

TEST(TableImport, WhatIsPrintedIsRead) {
  std::string text = llvm::cantFail(mergeTables(
      {std::string(kDescription) + kRest, "c.yaml"}, makeTables(), "x"));
  Cluster cluster = llvm::cantFail(parseCluster({text, "c.yaml"}));
  EXPECT_EQ(cluster.collectives.world.allGather.read(1e6, 2)->rate, 1e9);
  EXPECT_EQ(cluster.collectives.read(RankSet::world, kGather, 1e6, 2)->peak,
            1e9);
}
