// SPDX-License-Identifier: Apache-2.0

#include "job/Rendezvous.h"
#include "store/MemoryStore.h"

#include <gtest/gtest.h>
#include <thread>

using namespace fcdp;

namespace {

constexpr Mesh mesh{2, 2};

/// Returns records of four ranks that agree, numbered across the nodes as some
/// launchers do.
std::vector<JoinRecord> fourRanks() {
  std::vector<JoinRecord> records(4);
  for (uint32_t i = 0; i < 4; ++i) {
    JoinRecord &record = records[i];
    record.launcherRank = i;
    record.launcherSize = 4;
    record.mesh = mesh;
    record.place = {i % 2, i / 2};
    record.abi = 1;
    record.planHash = "abc";
    record.hostName = "host" + std::to_string(i % 2);
    record.address = "10.0.0." + std::to_string(i % 2 + 1);
    record.servesStore = i == 0;
  }
  return records;
}

/// Returns each rank's result: the order of the ranks, or the error.
std::vector<std::string> meetAll(const std::vector<JoinRecord> &records,
                                 double seconds = 10) {
  MemoryStore store(std::make_shared<MemoryValues>());
  std::vector<std::string> results(records.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < records.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        for (const JoinRecord &record : meet(store, records[i], seconds))
          results[i] += std::to_string(record.launcherRank) + " ";
      } catch (const std::runtime_error &error) {
        results[i] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return results;
}

void expectRefused(const std::vector<JoinRecord> &records,
                   const std::vector<std::string> &parts, double seconds = 10) {
  for (const std::string &result : meetAll(records, seconds))
    for (const std::string &part : parts)
      EXPECT_NE(result.find(part), std::string::npos) << result;
}

} // namespace

TEST(Rendezvous, RecordsSurviveTheStore) {
  JoinRecord record = fourRanks()[3];
  record.planHash = "";
  EXPECT_EQ(encode(decode(encode(record))), encode(record));
  EXPECT_THROW(decode("GET / HTTP/1.1"), std::runtime_error);
}

TEST(Rendezvous, OrdersTheRanksByTheirPlace) {
  for (const std::string &result : meetAll(fourRanks()))
    EXPECT_EQ(result, "0 2 1 3 ");
}

TEST(Rendezvous, NamesTheRanksWithAnotherPlan) {
  auto records = fourRanks();
  records[2].planHash = "xyz";
  expectRefused(records, {"plan's hash",
                          "launcher rank 0 (host host0) has "
                          "'abc'",
                          "launcher rank 2 (host host0) has 'xyz'"});
}

TEST(Rendezvous, NamesTheRanksWithAnotherAbi) {
  auto records = fourRanks();
  records[3].abi = 2;
  expectRefused(records, {"ABI", "launcher rank 3 (host host1) has '2'"});
}

TEST(Rendezvous, RefusesAnotherNumberOfRanks) {
  auto records = fourRanks();
  for (JoinRecord &record : records)
    record.mesh = {3, 2};
  expectRefused(records, {"compiled for 3 nodes x 2 ranks = 6 ranks",
                          "the launcher started 4"});
}

TEST(Rendezvous, RefusesTwoRanksInOnePlace) {
  auto records = fourRanks();
  records[1].place = records[3].place;
  expectRefused(records, {"launcher rank 1", "launcher rank 3",
                          "are both at (node 1, local 1)"});
}

TEST(Rendezvous, RefusesAPlaceOutsideTheMesh) {
  auto records = fourRanks();
  records[1].place = {2, 0};
  expectRefused(records, {"launcher rank 1 (host host1) is at (node 2, local "
                          "0), which is outside the mesh"});
}

TEST(Rendezvous, RefusesALoopbackAddressBetweenHosts) {
  auto records = fourRanks();
  records[0].address = "127.0.1.1";
  expectRefused(records, {"launcher rank 0", "127.0.1.1", "MASTER_ADDR"});
}

TEST(Rendezvous, NamesTheRanksThatDidNotCome) {
  auto records = fourRanks();
  records.erase(records.begin() + 3);
  records.erase(records.begin() + 1);
  expectRefused(records, {"launcher ranks 1, 3 of 4 did not join"}, 0.3);
}
