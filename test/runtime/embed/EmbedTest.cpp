// SPDX-License-Identifier: Apache-2.0
//
// The C interface: its errors in this process, and the C example on 2 x 2 ranks
// beside fcdp-run.
#include "fcdp/session.h"
#include "plan/Archive.h"
#include "plan/FakeStep.h"
#include "store/TcpStore.h"

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <thread>
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

  void writeInputs() const {
    std::vector<float> x;
    std::vector<int64_t> y;
    for (size_t i = 0; i < kRows * kElements; ++i) {
      x.push_back(float(int(i * 7 % 11) - 5) / 8);
      y.push_back(int64_t(i * 5 % 10));
    }
    writeRows(folder.file("x"), "<f4", x);
    writeRows(folder.file("y"), "<i8", y);
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
  writeInputs();
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

TEST_F(EmbedTest, TheExampleGoesOnFromItsCheckpoints) {
  writeInputs();
  std::string object = linearStep(1, 1, 2).build(folder);
  auto train = [&](const std::string &steps, const std::string &run) {
    return outputOf(FCDP_EXAMPLE " " + object + " " + folder.file("w.pt2") +
                    " " + steps + " " + folder.file("x") + " " +
                    folder.file("y") + " " + run);
  };
  std::string run = folder.file("run");
  std::string whole = train("5", ""), begun = train("3", run);
  EXPECT_EQ(begun + train("5", run), whole);
  EXPECT_EQ(train("5", run), "");
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(run))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{"step-00000004", "step-00000005"}));
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
  // Roles have names, too.
  for (float &element : w)
    element += 1;
  ASSERT_EQ(fcdp_session_set_named_state(session, "w", "value", &value),
            FCDP_OK);
  ASSERT_EQ(
      fcdp_session_get_named_state(session, "w", "value", read.data(), 24),
      FCDP_OK);
  EXPECT_EQ(read, w);
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK);
  fcdp_session_destroy(session);
}

// Roles of other optimizers are known, too: the step lacks them.
TEST_F(EmbedTest, RolesThatTheStepLacks) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  auto refusal = [&](int role) -> std::string {
    EXPECT_EQ(
        fcdp_session_get_state(session, "w", fcdp_state_role(role), nullptr, 0),
        FCDP_MISUSE);
    return fcdp_last_error();
  };
  EXPECT_EQ(refusal(FCDP_EXP_AVG_CODE),
            "parameter 'w' has no exp_avg_code in this step");
  EXPECT_EQ(refusal(FCDP_VARIANCE),
            "parameter 'w' has no variance in this step");
  EXPECT_EQ(refusal(FCDP_VARIANCE + 1), "expected a known role of a state");
  auto refusalOf = [&](const char *role) -> std::string {
    EXPECT_EQ(fcdp_session_get_named_state(session, "w", role, nullptr, 0),
              FCDP_MISUSE);
    return fcdp_last_error();
  };
  EXPECT_EQ(refusalOf("exp_avg"), "parameter 'w' has no exp_avg in this step");
  EXPECT_EQ(refusalOf("grad"), "there is no role 'grad' of a state");
  EXPECT_EQ(refusalOf(nullptr), "expected a text, got a null pointer");
  EXPECT_EQ(fcdp_session_set_named_state(session, "w", "value", nullptr),
            FCDP_MISUSE);
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, StepsFromC) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  EXPECT_EQ(fcdp_session_num_micro_batches(session), 1u);
  ASSERT_EQ(fcdp_session_num_inputs(session), 2u);
  EXPECT_EQ(fcdp_session_max_unread(session), 1u);
  std::vector<float> x(kElements, 0.5F);
  std::vector<int64_t> y(kElements, 3);
  std::array<fcdp_tensor, 2> inputs;
  const void *data[] = {x.data(), y.data()};
  for (size_t i = 0; i < 2; ++i) {
    fcdp_tensor_info info;
    ASSERT_EQ(fcdp_session_input(session, i, &info), FCDP_OK);
    EXPECT_STREQ(info.name, i == 0 ? "x" : "y");
    inputs[i] = {data[i], info.dtype, info.num_dims, info.shape};
  }
  std::string weights = folder.file("w.pt2"), saved = folder.file("saved");
  ASSERT_EQ(fcdp_session_load_weights(session, weights.c_str()), FCDP_OK);
  ASSERT_EQ(fcdp_session_set_update_count(session, "w", 1), FCDP_OK);
  int64_t count = 0;
  ASSERT_EQ(fcdp_session_get_update_count(session, "w", &count), FCDP_OK);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(fcdp_session_combine(session, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_learning_rate(session, -1), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_schedule(session, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_schedule(session, "linear"), FCDP_MISUSE);
  EXPECT_STREQ(fcdp_last_error(), "schedule: schedule 'linear' needs 'steps'");
  EXPECT_EQ(fcdp_session_learning_rate(session), 0.5);
  ASSERT_EQ(fcdp_session_set_learning_rate(session, 4), FCDP_OK);
  ASSERT_EQ(fcdp_session_set_schedule(session, "constant,warmup=2,start=0.5"),
            FCDP_OK);
  EXPECT_EQ(fcdp_session_learning_rate(session), 2);
  ASSERT_EQ(fcdp_session_run(session, inputs.data(), 2), FCDP_OK);
  EXPECT_EQ(fcdp_session_learning_rate(session), 3);
  EXPECT_EQ(fcdp_session_num_unread(session), 1u);
  double loss = 0;
  fcdp_figures own, all;
  ASSERT_EQ(fcdp_session_read(session, &loss, &own), FCDP_OK);
  EXPECT_EQ(fcdp_session_num_unread(session), 0u);
  double expected = 0;
  for (float value : w)
    expected += (value * 0.5 - 3) * (value * 0.5 - 3);
  EXPECT_NEAR(loss, expected, 1e-5 * expected);
  EXPECT_EQ(own.loss, loss);
  ASSERT_EQ(fcdp_session_combine(session, &all), FCDP_OK);
  EXPECT_EQ(all.loss, loss);
  EXPECT_EQ(all.d2h_bytes, own.d2h_bytes);
  EXPECT_EQ(own.learning_rate, 2);
  EXPECT_EQ(all.learning_rate, 2);
  ASSERT_EQ(fcdp_session_save_weights(session, saved.c_str()), FCDP_OK);
  EXPECT_TRUE(std::filesystem::exists(saved));
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK);

  EXPECT_EQ(fcdp_session_run(session, inputs.data(), 2), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_save_weights(session, saved.c_str()), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_combine(session, &all), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_close(session), FCDP_MISUSE);
  EXPECT_STREQ(fcdp_last_error(), "the session is closed");
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, InfiniteLossesFromC) {
  std::vector<float> x(kElements, 1e30F);
  std::vector<int64_t> y(kElements, 3);
  const int64_t shape[] = {2, 3};
  fcdp_tensor inputs[] = {{x.data(), FCDP_F32, 2, shape},
                          {y.data(), FCDP_I64, 2, shape}};
  std::string object = linearStep(1, 1, 1).build(folder);
  std::string weights = folder.file("w.pt2");
  fcdp_options options;
  fcdp_options_init(&options);
  EXPECT_EQ(options.on_nonfinite, FCDP_NONFINITE_STOP);
  for (int mode = FCDP_NONFINITE_STOP; mode <= FCDP_NONFINITE_CONTINUE;
       ++mode) {
    options.on_nonfinite = fcdp_on_nonfinite(mode);
    fcdp_session *session = nullptr;
    ASSERT_EQ(fcdp_session_open(object.c_str(), &options, &session), FCDP_OK);
    ASSERT_EQ(fcdp_session_load_weights(session, weights.c_str()), FCDP_OK);
    bool stops = mode == FCDP_NONFINITE_STOP;
    bool skips = mode == FCDP_NONFINITE_SKIP;
    for (uint64_t step = 1; step <= (stops ? 1 : 2); ++step) {
      ASSERT_EQ(fcdp_session_run(session, inputs, 2), FCDP_OK);
      fcdp_figures own, all;
      ASSERT_EQ(fcdp_session_read(session, nullptr, &own), FCDP_OK);
      EXPECT_EQ(own.skipped_steps, skips ? step : 0);
      EXPECT_EQ(fcdp_session_combine(session, &all),
                stops ? FCDP_NOT_FINITE : FCDP_OK);
      EXPECT_FALSE(std::isfinite(all.loss));
      EXPECT_EQ(all.skipped_steps, own.skipped_steps);
    }
    if (stops)
      EXPECT_STREQ(fcdp_last_error(),
                   "step 1: the loss of micro-batch 1 of 1 "
                   "on rank 0 (node 0, local 0) is infinite");
    int64_t updates = -1;
    EXPECT_EQ(fcdp_session_get_update_count(session, "w", &updates),
              stops ? FCDP_MISUSE : FCDP_OK);
    EXPECT_EQ(updates, stops ? -1 : skips ? 0 : 2);
    fcdp_session_destroy(session);
  }
  options.on_nonfinite = fcdp_on_nonfinite(3);
  fcdp_session *session = nullptr;
  EXPECT_EQ(fcdp_session_open(object.c_str(), &options, &session), FCDP_MISUSE);
}

TEST_F(EmbedTest, PaddingFromC) {
  fcdp_options options;
  fcdp_options_init(&options);
  std::string object = linearStep(1, 1, 1).build(folder);
  auto refusal = [&](const char *padding) -> std::string {
    fcdp_session *session = nullptr;
    options.padding = padding;
    EXPECT_NE(fcdp_session_open(object.c_str(), &options, &session), FCDP_OK);
    EXPECT_FALSE(session);
    return fcdp_last_error();
  };
  EXPECT_EQ(refusal("x=1,y"),
            "padding: expected NAME=VALUE, with a number, got 'y'");
  EXPECT_EQ(refusal("x=1,x=2"), "padding x: given twice");
  EXPECT_EQ(refusal("none=1"),
            "padding of input 'none': the step has no input of that name");
  EXPECT_EQ(refusal("x=1"), "padding of input 'x': expected a step of several "
                            "shapes, got one of one shape");
}

TEST_F(EmbedTest, DeterministicOperatorsFromC) {
  fcdp_options options;
  fcdp_options_init(&options);
  options.deterministic = 1;
  std::string object = linearStep(1, 1, 1).build(folder);
  fcdp_session *session = nullptr;
  ASSERT_EQ(fcdp_session_open(object.c_str(), &options, &session), FCDP_OK)
      << fcdp_last_error();
  // A program has other threads, which may read the environment.
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  fcdp_session_destroy(session);
  setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", /*replace=*/1);
  EXPECT_EQ(fcdp_session_open(object.c_str(), &options, &session),
            FCDP_NO_DEVICE);
  EXPECT_STREQ(fcdp_last_error(),
               "deterministic operators: expected CUBLAS_WORKSPACE_CONFIG to "
               "be :4096:8 or :16:8, or not to be set, got ':0:0'");
  unsetenv("CUBLAS_WORKSPACE_CONFIG");
}

TEST_F(EmbedTest, ReductionsByNcclFromC) {
  fcdp_options options;
  fcdp_options_init(&options);
  EXPECT_EQ(options.reductions_by, FCDP_REDUCTIONS_BY_FCDP);
  options.reductions_by = FCDP_REDUCTIONS_BY_NCCL;
  std::string object = linearStep(1, 1, 1).build(folder);
  fcdp_session *session = nullptr;
  EXPECT_EQ(fcdp_session_open(object.c_str(), &options, &session),
            FCDP_NO_DEVICE);
  EXPECT_STREQ(fcdp_last_error(), "reductions by NCCL: expected a step that "
                                  "was compiled for 'cuda', got one for 'cpu'");
  options.reductions_by = fcdp_reductions_by(2);
  EXPECT_EQ(fcdp_session_open(object.c_str(), &options, &session), FCDP_MISUSE);
}

TEST_F(EmbedTest, NullPointersAreMisuse) {
  EXPECT_EQ(fcdp_session_open(nullptr, nullptr, nullptr), FCDP_MISUSE);
  fcdp_session *none = nullptr;
  EXPECT_EQ(fcdp_session_open(nullptr, nullptr, &none), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_close(none), FCDP_MISUSE);
  fcdp_session_destroy(none);
  fcdp_session_fail(none, "nobody listens");
  fcdp_options_init(nullptr);
  fcdp_tensor_info info;
  int64_t count;
  EXPECT_EQ(fcdp_session_input(none, 0, &info), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_state(none, 0, &info), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_save_weights(none, "w"), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_get_state(none, "w", FCDP_VALUE, nullptr, 0),
            FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_get_update_count(none, "w", &count), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_update_count(none, "w", 0), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_load_checkpoint(none, "run", &count, nullptr),
            FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_open_checkpoints(none, "run", 0), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_save_checkpoint(none, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_finish_checkpoint(none), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_num_steps(none), 0);
  EXPECT_EQ(fcdp_session_set_learning_rate(none, 1), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_set_schedule(none, "constant"), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_learning_rate(none), 0);
  EXPECT_EQ(fcdp_session_run(none, nullptr, 0), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_read(none, nullptr, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_combine(none, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_rank(none), 0u);
  EXPECT_EQ(fcdp_session_num_ranks(none), 0u);
  EXPECT_EQ(fcdp_session_num_micro_batches(none), 0u);
  EXPECT_EQ(fcdp_session_num_inputs(none), 0u);
  EXPECT_EQ(fcdp_session_num_states(none), 0u);
  EXPECT_EQ(fcdp_session_num_unread(none), 0u);
  EXPECT_EQ(fcdp_session_max_unread(none), 0u);

  fcdp_session *session = open();
  ASSERT_TRUE(session);
  fcdp_tensor tensor = {w.data(), FCDP_F32, 2, nullptr};
  EXPECT_EQ(fcdp_session_input(session, 2, &info), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_state(session, 0, nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_load_checkpoint(session, nullptr, nullptr, nullptr),
            FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_open_checkpoints(session, nullptr, 0), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_save_checkpoint(session, "{}"), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_run(session, nullptr, 2), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_run(session, &tensor, 1), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_get_state(session, "w", FCDP_VALUE, nullptr, 24),
            FCDP_MISUSE);
  EXPECT_EQ(
      fcdp_session_get_state(session, "w", fcdp_state_role(9), w.data(), 24),
      FCDP_MISUSE);
  const int64_t shape[] = {2, 3};
  tensor = {nullptr, FCDP_F32, 2, shape};
  EXPECT_EQ(fcdp_session_set_state(session, "w", FCDP_VALUE, &tensor),
            FCDP_MISUSE);
  tensor = {w.data(), fcdp_dtype(77), 2, shape};
  EXPECT_EQ(fcdp_session_set_state(session, "w", FCDP_VALUE, &tensor),
            FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_get_update_count(session, "w", nullptr), FCDP_MISUSE);
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK);
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, FailEndsTheSession) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  fcdp_session_fail(session, "out of data");
  EXPECT_STREQ(fcdp_last_error(), "out of data");
  EXPECT_EQ(fcdp_session_close(session), FCDP_MISUSE);
  fcdp_session_destroy(session);
}

/// Inputs of a step of `linearStep(1, 1, 1)`.
struct StepInputs {
  std::vector<float> x = std::vector<float>(kElements, 0.5F);
  std::vector<int64_t> y = std::vector<int64_t>(kElements, 3);
  std::array<int64_t, 2> shape = {2, 3};
  std::array<fcdp_tensor, 2> tensors = {
      {{x.data(), FCDP_F32, 2, shape.data()},
       {y.data(), FCDP_I64, 2, shape.data()}}};

  fcdp_status run(fcdp_session *session) {
    return fcdp_session_run(session, tensors.data(), tensors.size());
  }
  fcdp_status step(fcdp_session *session) {
    fcdp_status status = run(session);
    return status == FCDP_OK ? fcdp_session_read(session, nullptr, nullptr)
                             : status;
  }
};

// If threads begin steps at the same time, one step runs and the others are
// refused.
TEST_F(EmbedTest, ThreadsThatStepAtTheSameTime) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  ASSERT_EQ(fcdp_session_load_weights(session, folder.file("w.pt2").c_str()),
            FCDP_OK);
  std::atomic<int64_t> made{0};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      StepInputs inputs;
      for (int call = 0; call < 50; ++call) {
        // A step that is not read yet is the misuse of another thread's.
        fcdp_status status = inputs.run(session);
        if (status == FCDP_OK) {
          ++made;
          while ((status = fcdp_session_read(session, nullptr, nullptr)) ==
                 FCDP_BUSY)
            std::this_thread::yield();
        }
        wrong +=
            status != FCDP_OK && status != FCDP_BUSY && status != FCDP_MISUSE;
        wrong += fcdp_session_num_inputs(session) != 2;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(made, 0);
  EXPECT_EQ(fcdp_session_num_steps(session), made);
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK);
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, AThreadThatStepsWhileAnotherEndsTheSession) {
  for (bool closes : {true, false}) {
    fcdp_session *session = open();
    ASSERT_TRUE(session);
    ASSERT_EQ(fcdp_session_load_weights(session, folder.file("w.pt2").c_str()),
              FCDP_OK);
    std::atomic<bool> hasBegun{false};
    fcdp_status last = FCDP_OK;
    std::thread stepping([&] {
      StepInputs inputs;
      while (last == FCDP_OK || last == FCDP_BUSY) {
        last = inputs.step(session);
        hasBegun = true;
      }
    });
    while (!hasBegun)
      std::this_thread::yield();
    if (closes)
      while (fcdp_session_close(session) == FCDP_BUSY)
        std::this_thread::yield();
    else
      fcdp_session_destroy(session);
    stepping.join();
    EXPECT_EQ(last, FCDP_MISUSE);
    EXPECT_EQ(fcdp_session_run(session, nullptr, 0), FCDP_MISUSE);
    EXPECT_STREQ(fcdp_last_error(), "the session is closed");
    fcdp_session_destroy(session);
    EXPECT_EQ(fcdp_session_rank(session), 0u);
    EXPECT_EQ(fcdp_session_num_inputs(session), 0u);
    EXPECT_EQ(fcdp_session_close(session), FCDP_MISUSE);
  }
}

/// Ends this process, a child, by `work`, or after 20 seconds.
template <typename Work>
[[noreturn]] void endChild(Work work) {
  alarm(20);
  _exit(work());
}

// Neither hangs nor disturbs the process that has opened the session.
TEST_F(EmbedTest, AForkedChildHasNoPartInTheJob) {
  fcdp_session *session = open();
  ASSERT_TRUE(session);
  ASSERT_EQ(fcdp_session_load_weights(session, folder.file("w.pt2").c_str()),
            FCDP_OK);
  StepInputs inputs;
  ASSERT_EQ(inputs.step(session), FCDP_OK);
  const std::string expected =
      "this process was forked from process " + std::to_string(getpid()) +
      ", which has opened the session and alone can use it";
  pid_t child = fork();
  if (child == 0)
    endChild([&] {
      for (fcdp_status status :
           {inputs.run(session), fcdp_session_close(session),
            fcdp_session_save_weights(session, "/nowhere"),
            fcdp_session_finish_checkpoint(session)})
        if (status != FCDP_MISUSE || fcdp_last_error() != expected)
          return 1;
      fcdp_session_fail(session, "the child has failed");
      fcdp_session_destroy(session);
      return 0;
    });
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(inputs.step(session), FCDP_OK) << fcdp_last_error();
  EXPECT_EQ(fcdp_session_close(session), FCDP_OK) << fcdp_last_error();
  fcdp_session_destroy(session);
}

TEST_F(EmbedTest, EachStatusHasAName) {
  std::set<std::string> names;
  for (int status = FCDP_OK; status <= FCDP_BUSY; ++status)
    names.insert(fcdp_status_name(fcdp_status(status)));
  EXPECT_EQ(names.size(), size_t(FCDP_BUSY) + 1);
  EXPECT_TRUE(names.count("ok"));
}

/// Opens and closes a session of rank `local` of two for each number.
fcdp_status meet(const std::string &object, uint32_t local, uint16_t port,
                 std::initializer_list<uint32_t> numbers) {
  fcdp_launch launch = {1, 2, 0, local, "127.0.0.1", port, 0};
  fcdp_options options;
  fcdp_options_init(&options);
  options.launch = &launch;
  options.timeout_seconds = 5;
  fcdp_status status = FCDP_OK;
  for (uint32_t number : numbers) {
    options.number = number;
    fcdp_session *session = nullptr;
    status = fcdp_session_open(object.c_str(), &options, &session);
    if (status == FCDP_OK)
      status = fcdp_session_close(session);
    fcdp_session_destroy(session);
    if (status != FCDP_OK)
      break;
  }
  return status;
}

/// Two ranks open sessions with these numbers over one store, which outlives
/// the sessions as torchrun's does.
void expectMeeting(const std::string &object,
                   std::initializer_list<uint32_t> numbers,
                   std::initializer_list<uint32_t> numbersOfOther,
                   fcdp_status expected) {
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    uint16_t port;
    bool isRead = read(ports[0], &port, sizeof(port)) == sizeof(port);
    _exit(isRead ? meet(object, 1, port, numbersOfOther) : -1);
  }
  fcdp::TcpStoreOptions options;
  options.host = "127.0.0.1";
  options.serves = true;
  fcdp::TcpStore store(options);
  uint16_t port = store.port();
  ASSERT_EQ(write(ports[1], &port, sizeof(port)), ssize_t(sizeof(port)));
  EXPECT_EQ(meet(object, 0, port, numbers), expected) << fcdp_last_error();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), int(expected));
  close(ports[0]);
  close(ports[1]);
}

TEST_F(EmbedTest, SessionsWithNumbersOfTheirOwnFollowEachOther) {
  std::string object = linearStep(1, 2, 1).build(folder);
  expectMeeting(object, {0, 1, 2}, {0, 1, 2}, FCDP_OK);
}

TEST_F(EmbedTest, SessionsOfOtherNumbersDoNotMeet) {
  std::string object = linearStep(1, 2, 1).build(folder);
  expectMeeting(object, {0, 1}, {0, 7}, FCDP_RENDEZVOUS_FAILED);
}

/// Opens a session of rank `local` of two, makes `steps` steps and closes it.
fcdp_status train(const std::string &object, uint32_t local, uint16_t port,
                  int steps, std::string &text) {
  fcdp_launch launch = {1, 2, 0, local, "127.0.0.1", port, 0};
  fcdp_options options;
  fcdp_options_init(&options);
  options.launch = &launch;
  options.timeout_seconds = 60;
  fcdp_session *session = nullptr;
  fcdp_status status = fcdp_session_open(object.c_str(), &options, &session);
  StepInputs inputs;
  for (int step = 0; step < steps && status == FCDP_OK; ++step)
    status = inputs.step(session);
  if (status == FCDP_OK)
    status = fcdp_session_close(session);
  text = fcdp_last_error();
  fcdp_session_destroy(session);
  return status;
}

// Both ranks learn at once who has ended after how many steps.
TEST_F(EmbedTest, ARankThatEndsItsLoopEarly) {
  std::string object = linearStep(1, 2, 1).build(folder);
  fcdp::TcpStoreOptions options;
  options.host = "127.0.0.1";
  options.serves = true;
  pid_t child = fork();
  std::string port = folder.file("port"), text;
  if (child == 0)
    endChild([&] {
      uint16_t number = 0;
      while (!(std::ifstream(port) >> number))
        usleep(10000);
      bool isRight = train(object, 1, number, 2, text) == FCDP_PEER_FAILED &&
                     text.find("has ended its loop after 2 steps") != text.npos;
      return isRight ? 0 : 1;
    });
  fcdp::TcpStore store(options);
  std::ofstream(port + ".new") << store.port() << std::endl;
  std::filesystem::rename(port + ".new", port);
  auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(train(object, 0, store.port(), 4, text), FCDP_PEER_FAILED);
  EXPECT_EQ(text.rfind("rank 1 (node 0, local 1) has ended its loop after 2 "
                       "steps, but rank 0 (node 0, local 0) goes on after 2 "
                       "steps",
                       0),
            0u)
      << text;
  // Half of the limit of collectives, so that a busy machine has time.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
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
