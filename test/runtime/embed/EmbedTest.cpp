// SPDX-License-Identifier: Apache-2.0
//
// The C interface: its errors in this process, and the C example on 2 x 2 ranks
// beside fcdp-run.
#include "fcdp/session.h"
#include "plan/Archive.h"
#include "plan/FakeStep.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace fcdp::test;

namespace {

constexpr size_t kElements = 6, kRows = 16;

/// Standard output and standard error of a command that must succeed.
std::string outputOf(const std::string &command) {
  std::string output;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer;
  size_t got;
  while ((got = fread(buffer.data(), 1, buffer.size(), pipe)) > 0)
    output.append(buffer.data(), got);
  int status = pclose(pipe);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
  return output;
}

template <typename T>
void writeRaw(std::ofstream &file, const std::vector<T> &values) {
  file.write(reinterpret_cast<const char *>(values.data()),
             std::streamsize(values.size() * sizeof(T)));
}

/// The same rows as a raw file and as NAME.npy.
template <typename T>
void writeRows(const std::string &path, const char *type,
               const std::vector<T> &values) {
  std::ofstream raw(path, std::ios::binary);
  writeRaw(raw, values);
  std::ofstream npy(path + ".npy", std::ios::binary);
  std::string header = std::string("{'descr': '") + type +
                       "', 'fortran_order': False, 'shape': (16, 2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  uint16_t length = header.size();
  npy.write("\x93NUMPY\x01\x00", 8);
  npy.write(reinterpret_cast<char *>(&length), 2);
  npy << header;
  writeRaw(npy, values);
}

class EmbedTest : public ::testing::Test {
protected:
  EmbedTest() {
    Archive archive;
    archive.weights = {{"w", "weight_0", 7, {2, 3}, {3, 1}}};
    archive.payloads = {{"weight_0", floatBytes(w)}};
    archive.write(folder.file("w.pt2"));
  }

  fcdp_session *open() {
    std::string object = linearStep(1, 1, 1).build(folder);
    fcdp_session *session = nullptr;
    EXPECT_EQ(fcdp_session_open(object.c_str(), nullptr, &session), FCDP_OK)
        << fcdp_last_error();
    return session;
  }

  TemporaryFolder folder;
  std::vector<float> w = {0.5, -1, 2, 0.25, 3, -0.75};
};

// The example's losses, which it prints in full, are those of fcdp-run.
TEST_F(EmbedTest, TheExampleTrainsAsFcdpRunDoes) {
  std::vector<float> x;
  std::vector<int64_t> y;
  for (size_t i = 0; i < kRows * kElements; ++i) {
    x.push_back(float(int(i * 7 % 11) - 5) / 8);
    y.push_back(int64_t(i * 5 % 10));
  }
  writeRows(folder.file("x"), "<f4", x);
  writeRows(folder.file("y"), "<i8", y);
  std::string object = linearStep(2, 2, 3).build(folder);
  std::string weights = folder.file("w.pt2"), log = folder.file("log.jsonl");
  outputOf(FCDP_RUN " " + object + " --weights=" + weights +
           " --steps=2 --input x=" + folder.file("x.npy") +
           " --input y=" + folder.file("y.npy") + " --json=" + log);

  // torchrun's variables for each rank, without torchrun, which starts one
  // node.
  std::string port = std::to_string(20000 + getpid() % 10000);
  std::string command;
  for (int rank = 3; rank >= 0; --rank)
    command += "WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 RANK=" + std::to_string(rank) +
               " LOCAL_RANK=" + std::to_string(rank % 2) +
               " GROUP_RANK=" + std::to_string(rank / 2) +
               " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
               " " FCDP_EXAMPLE " " + object + " " + weights + " 2 " +
               folder.file("x") + " " + folder.file("y") +
               (rank > 0 ? " & " : "; a=$?; wait; exit $a");
  std::istringstream output(outputOf(command));

  std::ifstream lines(log);
  for (int step = 1; step <= 2; ++step) {
    std::string line, word;
    ASSERT_TRUE(std::getline(lines, line));
    Json expected = Json::parse(line);
    int number = 0;
    double loss = 0;
    uint64_t bytes = 0;
    ASSERT_TRUE(output >> word >> number >> word >> loss >> word >> bytes);
    EXPECT_EQ(number, step);
    EXPECT_EQ(loss, expected["loss"].get<double>());
    EXPECT_EQ(bytes, expected["inter_bytes_sent"].get<uint64_t>());
  }
}

TEST_F(EmbedTest, StateByName) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  EXPECT_EQ(fcdp_session_rank(session), 0u);
  EXPECT_EQ(fcdp_session_num_ranks(session), 1u);
  ASSERT_EQ(fcdp_session_num_states(session), 1u);
  fcdp_tensor_info info;
  ASSERT_EQ(fcdp_session_state(session, 0, &info), FCDP_OK);
  EXPECT_STREQ(info.name, "w");
  EXPECT_EQ(info.dtype, FCDP_F32);
  ASSERT_EQ(info.num_dims, 2u);
  EXPECT_EQ(info.shape[1], 3);
  EXPECT_EQ(info.bytes, 24u);
  fcdp_tensor value = {w.data(), info.dtype, info.num_dims, info.shape};
  ASSERT_EQ(fcdp_session_set_state(session, "w", FCDP_VALUE, &value), FCDP_OK);
  std::vector<float> read(kElements);
  ASSERT_EQ(fcdp_session_get_state(session, "w", FCDP_VALUE, read.data(), 24),
            FCDP_OK);
  EXPECT_EQ(read, w);
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK);
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, ErrorsHaveACodeAndAText) {
  fcdp_session *session = nullptr;
  EXPECT_EQ(fcdp_session_open("/none.so", nullptr, &session), FCDP_BAD_OBJECT);
  EXPECT_FALSE(session);
  EXPECT_STREQ(fcdp_last_error(), "/none.so: cannot open this file");
  EXPECT_STREQ(fcdp_status_name(FCDP_BAD_OBJECT), "bad object");

  session = open();
  ASSERT_TRUE(session);
  EXPECT_EQ(fcdp_session_run(session, nullptr, 0), FCDP_INPUT_MISMATCH);
  EXPECT_EQ(fcdp_session_read(session, nullptr, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_state(session, "v", FCDP_VALUE, nullptr),
            FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_load_weights(session, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_load_weights(nullptr, "/none"), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_load_weights(session, "/none"), FCDP_BAD_WEIGHTS);
  EXPECT_EQ(fcdp_session_load_weights(session, "/none"), FCDP_MISUSE);
  fcdp_session_destroy(session);

  fcdp_launch launch = {1, 1, 0, 1, nullptr, 0, 1};
  fcdp_options options;
  fcdp_options_init(&options);
  options.launch = &launch;
  std::string object = folder.file("step.so");
  EXPECT_EQ(fcdp_session_open(object.c_str(), &options, &session), FCDP_MISUSE);
}

} // namespace
