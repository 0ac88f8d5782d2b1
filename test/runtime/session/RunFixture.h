// SPDX-License-Identifier: Apache-2.0
//
// Runs fcdp-run as a user calls it, on steps made without the compiler.
#pragma once

#include "plan/Archive.h"
#include "plan/FakeStep.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/wait.h>
#include <unistd.h>

namespace fcdp::test {

struct Outcome {
  int exitCode;
  std::string output; ///< standard output and standard error
};

inline Outcome execute(const std::string &command) {
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

inline size_t count(const std::string &text, const std::string &part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != text.npos;
       at = text.find(part, at + part.size()))
    ++number;
  return number;
}

inline constexpr int64_t kRows = 16;

/// A folder with weights and inputs for linearStep.
class RunFixture : public ::testing::Test {
protected:
  RunFixture() {
    Archive archive;
    archive.weights = {{"w", "weight_0", 7, {2, 3}, {3, 1}}};
    archive.payloads = {{"weight_0", floatBytes(weights)}};
    archive.write(folder.file("w.pt2"));
    Archive other = archive;
    other.weights[0].sizes = {6};
    other.weights[0].strides = {1};
    other.write(folder.file("other.pt2"));
    writeX();
    std::ofstream tokens(folder.file("y.bin"), std::ios::binary);
    for (int64_t i = 0; i < kRows * 6; ++i) {
      uint16_t token = label(i);
      tokens.write(reinterpret_cast<char *>(&token), sizeof(token));
    }
  }

  static float sample(int64_t i) { return float((i * 7) % 11 - 5) / 8; }
  static uint16_t label(int64_t i) { return (i * 5) % 10; }

  std::string contentOf(const std::string &name) const {
    std::ifstream file(folder.file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

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

  std::vector<Json> readLog(const std::string &name = "log.jsonl") const {
    std::vector<Json> lines;
    std::ifstream file(folder.file(name));
    for (std::string line; std::getline(file, line);)
      lines.push_back(Json::parse(line));
    return lines;
  }

  TemporaryFolder folder;
  std::vector<float> weights = {0.5, -1, 2, 0.25, 3, -0.75};
};

/// A run that takes long enough to interfere with.
class LongRunFixture : public RunFixture {
protected:
  void start(const std::string &more) {
    std::string object = linearStep(2, 2, 1).build(folder);
    std::string line =
        "exec " +
        command(object, "--steps=10000000 --json=" + folder.file("log ")) +
        more + " > " + folder.file("output") + " 2>&1";
    launcher = fork();
    if (launcher == 0) {
      // A shell ignores it for what it starts in the background.
      signal(SIGINT, SIG_DFL);
      execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
      _exit(127);
    }
    while (output().find("step 3") == std::string::npos)
      usleep(20000);
  }

  std::string output() const {
    std::ifstream file(folder.file("output"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Process ids of the ranks, in the order they were started.
  std::vector<pid_t> ranks() const {
    // The kernel lists children in this order, also where process ids have
    // begun again from small numbers.
    std::string id = std::to_string(launcher);
    std::ifstream children("/proc/" + id + "/task/" + id + "/children");
    return {std::istream_iterator<pid_t>(children), {}};
  }

  int waitForEnd() const {
    int status;
    waitpid(launcher, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  pid_t launcher = -1;
};

} // namespace fcdp::test
