// SPDX-License-Identifier: Apache-2.0
//
// A session on a step that is made without the compiler.
#pragma once

#include "plan/FakeStep.h"

#include "session/Session.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace fcdp::test {

inline constexpr size_t kElements = 6;

inline uint16_t freePort() {
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr *>(&address), size), 0);
  getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &size);
  close(descriptor);
  return ntohs(address.sin_port);
}

/// A step of linearStep's form: loss sum((w x - y)^2), SGD with rate 0.5.
class SessionTest : public ::testing::Test {
protected:
  static SessionOptions only() {
    SessionOptions options;
    options.launch.launcher = "the test";
    options.launch.masterHost = "127.0.0.1";
    options.launch.servesStore = true;
    options.timeoutSeconds = 20;
    return options;
  }

  static SessionOptions oneOfTwo(uint32_t rank, uint16_t port) {
    SessionOptions options = only();
    options.launch.mesh = {1, 2};
    options.launch.place = {0, rank};
    options.launch.rank = rank;
    options.launch.masterPort = port;
    options.launch.servesStore = rank == 0;
    return options;
  }

  std::shared_ptr<const StepObject> step(uint32_t locals = 1,
                                         int microBatches = 1) {
    return loadStep(linearStep(1, locals, microBatches).build(folder));
  }

  template <typename T>
  static TensorView view(const std::vector<T> &values, DType dtype) {
    return {reinterpret_cast<const std::byte *>(values.data()), dtype, {2, 3}};
  }

  /// The inputs of a step, for each micro-batch the same.
  std::vector<TensorView> inputs(int microBatches = 1) const {
    std::vector<TensorView> all;
    for (int i = 0; i < microBatches; ++i) {
      all.push_back(view(x, DType::F32));
      all.push_back(view(y, DType::I64));
    }
    return all;
  }

  /// The next loss, and `w` after its update.
  double nextLoss(float rate = 0.5F) {
    double loss = 0;
    for (size_t i = 0; i < kElements; ++i) {
      double diff = w[i] * x[i] - double(y[i]);
      loss += diff * diff;
      w[i] -= rate * float(2 * diff * x[i]);
    }
    return loss;
  }

  std::unique_ptr<Session>
  openWithValue(const SessionOptions &options = only()) {
    auto session = Session::open(step(), options);
    session->setState("tied.w", plan::StateRole::shard, view(w, DType::F32));
    return session;
  }

  /// Expects each function to refuse to work, as a session does that is closed
  /// or has failed.
  void expectAllRefused(Session &session);

  TemporaryFolder folder;
  std::vector<float> w = {0.5, -1, 2, 0.25, 3, -0.75};
  std::vector<float> x = {0.25, -0.5, 0.125, 0.5, -0.25, 0.375};
  std::vector<int64_t> y = {1, 2, 3, 4, 5, 6};
};

/// Expects `work` to throw a SessionError, and returns its text.
template <typename Work>
std::string expectError(SessionErrorCode code, Work work) {
  try {
    work();
    ADD_FAILURE() << "expected the error '" << name(code) << "', got none";
  } catch (const SessionError &error) {
    EXPECT_STREQ(name(error.code()), name(code)) << error.what();
    return error.what();
  }
  return "";
}

/// Two ranks: this process is rank 0, and a child is rank 1.
class TwoRanksTest : public SessionTest {
protected:
  /// `work` runs in the child, whose exit code it returns.
  template <typename Work>
  void startOther(Work work) {
    object = step(2);
    child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
      _exit(work(oneOfTwo(1, port)));
  }
  void open(Session &session) {
    session.setState("w", plan::StateRole::shard, view(w, DType::F32));
    session.begin();
  }
  void waitForOther(int expected) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), expected);
  }

  const uint16_t port = freePort();
  std::shared_ptr<const StepObject> object;
  pid_t child = -1;
};

} // namespace fcdp::test
