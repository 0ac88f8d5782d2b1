// SPDX-License-Identifier: Apache-2.0
//
// fcdp-run as a user calls it, on steps made without the compiler.
#include "step/Archive.h"
#include "step/FakeStep.h"

#include "checkpoint/WeightSource.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

struct Outcome {
  int exitCode;
  std::string output; ///< standard output and standard error
};

Outcome execute(const std::string &command) {
  Outcome outcome;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  size_t got;
  while ((got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0)
    outcome.output.append(buffer.data(), got);
  int status = pclose(pipe);
  outcome.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

size_t count(const std::string &text, const std::string &part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + part.size()))
    ++number;
  return number;
}

constexpr int64_t kRows = 16;

/// A folder with weights and inputs for linearStep.
class RunTest : public ::testing::Test {
protected:
  RunTest() {
    Archive archive;
    archive.weights = {{"w", "weight_0", 7, {2, 3}, {3, 1}}};
    archive.payloads = {{"weight_0", floatBytes(weights)}};
    archive.write(folder.file("w.pt2"));
    writeX();
    std::ofstream tokens(folder.file("y.bin"), std::ios::binary);
    for (int64_t i = 0; i < kRows * 6; ++i) {
      uint16_t token = label(i);
      tokens.write(reinterpret_cast<char *>(&token), sizeof(token));
    }
  }

  static float sample(int64_t i) { return float((i * 7) % 11 - 5) / 8; }
  static uint16_t label(int64_t i) { return (i * 5) % 10; }

  void writeX() const {
    std::ofstream file(folder.file("x.npy"), std::ios::binary);
    std::string header = "{'descr': '<f4', 'fortran_order': False, "
                         "'shape': (16, 2, 3), }";
    header.resize(117, ' ');
    header += '\n';
    uint16_t length = header.size();
    file.write("\x93NUMPY\x01\x00", 8);
    file.write(reinterpret_cast<char *>(&length), 2);
    file << header;
    for (int64_t i = 0; i < kRows * 6; ++i) {
      float value = sample(i);
      file.write(reinterpret_cast<char *>(&value), sizeof(value));
    }
  }

  std::string command(const std::string &object,
                      const std::string &more = "") const {
    return FCDP_RUN " " + object + " --weights=" + folder.file("w.pt2") +
           " --input x=" + folder.file("x.npy") +
           " --input y=" + folder.file("y.bin") + ":u16 " + more;
  }

  /// The losses that linearStep must have, and the weights after it.
  std::vector<double> reference(int steps, int ranks, int microBatches) {
    std::vector<double> losses;
    for (int step = 0; step < steps; ++step) {
      std::vector<double> grad(6);
      double loss = 0;
      for (int m = 0; m < ranks * microBatches; ++m) {
        int64_t row = (step * microBatches * ranks + m) % kRows;
        for (int i = 0; i < 6; ++i) {
          double x = sample(row * 6 + i);
          double diff = weights[i] * x - label(row * 6 + i);
          loss += diff * diff;
          grad[i] += 2 * diff * x;
        }
      }
      losses.push_back(loss / (ranks * microBatches));
      for (int i = 0; i < 6; ++i)
        weights[i] -= 0.5 * grad[i] / (ranks * microBatches);
    }
    return losses;
  }

  std::vector<Json> readLog() const {
    std::vector<Json> lines;
    std::ifstream file(folder.file("log.jsonl"));
    for (std::string line; std::getline(file, line);)
      lines.push_back(Json::parse(line));
    return lines;
  }

  void checkTraining(uint32_t nodes, uint32_t locals, int microBatches,
                     const std::string &launch);

  TemporaryFolder folder;
  std::vector<float> weights = {0.5, -1, 2, 0.25, 3, -0.75};
};

void RunTest::checkTraining(uint32_t nodes, uint32_t locals, int microBatches,
                            const std::string &launch) {
  constexpr int steps = 5;
  std::string object = linearStep(nodes, locals, microBatches).build(folder);
  std::string out = folder.file("out.safetensors");
  Outcome run = execute(launch + command(object, "--steps=5 --json=" +
                                                     folder.file("log.jsonl") +
                                                     " --params-out=" + out));
  ASSERT_EQ(run.exitCode, 0) << run.output;
  EXPECT_EQ(count(run.output, "step "), size_t(steps)) << run.output;
  std::vector<double> losses = reference(steps, nodes * locals, microBatches);
  std::vector<Json> log = readLog();
  ASSERT_EQ(log.size(), size_t(steps));
  for (int i = 0; i < steps; ++i) {
    EXPECT_EQ(log[i]["step"], i + 1);
    EXPECT_NEAR(log[i]["loss"], losses[i], 1e-5 * losses[i]);
    // Gathers and reductions of 32 bytes, each rank's part.
    uint64_t inter = 2 * 32 * (nodes - 1) / nodes * microBatches;
    EXPECT_EQ(log[i]["inter_bytes_sent"], inter);
    uint64_t intra = 2 * 32 * (locals - 1) * microBatches;
    EXPECT_EQ(log[i]["intra_bytes_sent"], intra);
    EXPECT_EQ(log[i]["d2h_bytes"], 32 * microBatches);
    EXPECT_EQ(log[i]["h2d_bytes"], 32 * microBatches);
    EXPECT_EQ(log[i]["host_cache_bytes"], 4096);
    if (i > 0) {
      EXPECT_EQ(log[i]["system_allocations"], 0) << "step " << i + 1;
    }
  }
  auto saved = openWeights(out);
  StoredTensor tensor = requireTensor(*saved, {"tied.w"}, {2, 3}, DType::F32);
  for (int i = 0; i < 6; ++i) {
    float value;
    copyElements(tensor, i, 1, reinterpret_cast<std::byte *>(&value));
    EXPECT_NEAR(value, weights[i], 1e-5);
  }
}

TEST_F(RunTest, OneRank) { checkTraining(1, 1, 1, ""); }
TEST_F(RunTest, OneRankThreeMicroBatches) { checkTraining(1, 1, 3, ""); }
TEST_F(RunTest, TwoByTwoRanks) { checkTraining(2, 2, 1, ""); }
TEST_F(RunTest, TwoByTwoRanksThreeMicroBatches) { checkTraining(2, 2, 3, ""); }
TEST_F(RunTest, FourNodes) { checkTraining(4, 1, 1, ""); }

TEST_F(RunTest, Mpirun) {
  checkTraining(1, 2, 1,
                "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                "mpirun --oversubscribe -n 2 ");
}

} // namespace
