// SPDX-License-Identifier: Apache-2.0
//
// The files that fcdp-run writes: none is lost, and none is written over.
#include "session/RunFixture.h"

#include <filesystem>
#include <map>
#include <sys/stat.h>

using namespace fcdp;
using namespace fcdp::test;

namespace fs = std::filesystem;

namespace {

class OutputTest : public RunFixture {
protected:
  OutputTest() : object(linearStep(1, 1, 1).build(folder)) {}

  /// Runs two steps in a folder of their own, for what is kept elsewhere, or
  /// fails after a minute.
  Outcome run(const std::string &more, const std::string &before = "") {
    fs::create_directory(folder.file("here"));
    return execute(before + "cd " + folder.file("here") + " && timeout 60 " +
                   command(object, "--steps=2 " + more));
  }

  /// Returns the text that two steps write to the file of `option`.
  std::string expected(const std::string &option, const std::string &name) {
    Outcome outcome = run(option + "=" + folder.file(name));
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
    return contentOf(name);
  }

  /// The only file in the folder of the run.
  std::string keptFile() const {
    std::vector<fs::path> files(fs::directory_iterator(folder.file("here")),
                                {});
    return files.size() == 1 ? "here/" + files[0].filename().string() : "";
  }

  void expectRefused(const std::string &more, const std::string &message) {
    Outcome outcome = run(more);
    EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, "step 1"), 0u) << outcome.output;
    EXPECT_EQ(count(outcome.output, "fcdp-run: error: "), 1u) << outcome.output;
    EXPECT_NE(outcome.output.find(message), std::string::npos)
        << outcome.output;
    EXPECT_TRUE(fs::is_empty(folder.file("here")));
  }

  std::string object;
};

bool isDevice(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISCHR(status.st_mode);
}

TEST_F(OutputTest, DevicesAreWrittenToAsTheyAre) {
  Outcome outcome = run("--json=/dev/null --trace=/dev/null "
                        "--profile=/dev/null --params-out=/dev/null");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_TRUE(isDevice("/dev/null"));
  outcome = run("--json=/dev/stderr");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "{\"step\":"), 2u) << outcome.output;
}

TEST_F(OutputTest, PipesAreWrittenToIfTheyAreRead) {
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  expectRefused("--json=" + folder.file("pipe"),
                "cannot be created: No such device or address");
  Outcome outcome = run("--json=" + folder.file("pipe"),
                        "cat " + folder.file("pipe") + " > " +
                            folder.file("read") + " & sleep 0.5; ");
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_TRUE(fs::is_fifo(folder.file("pipe")));
}

TEST_F(OutputTest, PipesAreNoInputs) {
  std::string pipe = folder.file("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  auto refused = [&](const std::string &arguments) {
    Outcome outcome = execute("timeout 60 " FCDP_RUN " " + arguments);
    EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("pipe: expected a file"), std::string::npos)
        << outcome.output;
  };
  std::string x = " --input x=" + folder.file("x.npy"),
              y = " --input y=" + folder.file("y.bin") + ":u16",
              weights = " --weights=" + folder.file("w.pt2");
  refused(object + weights + " --input x=" + pipe + y);
  refused(object + weights + x + " --input y=" + pipe + ":u16");
  refused(object + " --weights=" + pipe + x + y);
  refused(pipe + weights + x + y);
}

TEST_F(OutputTest, AFullDiskDoesNotEndTraining) {
  std::string lines = expected("--json", "log");
  Outcome outcome = run("--json=/dev/full --params-out=" + folder.file("out"));
  EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "fcdp-run: warning: --json /dev/full: cannot "
                                  "be written: No space left on device"),
            1u)
      << outcome.output;
  EXPECT_TRUE(fs::exists(folder.file("out")));
  // Lines have durations, which differ.
  ASSERT_NE(keptFile(), "") << outcome.output;
  EXPECT_NE(outcome.output.find(keptFile()), std::string::npos)
      << outcome.output;
  std::vector<Json> kept = readLog(keptFile()), all = readLog("log");
  ASSERT_EQ(kept.size(), all.size());
  for (size_t i = 0; i < kept.size(); ++i)
    EXPECT_EQ(kept[i]["loss"], all[i]["loss"]);
}

TEST_F(OutputTest, ParametersAreKeptElsewhere) {
  std::string whole = expected("--params-out", "out");
  Outcome outcome = run("--params-out=/dev/full");
  EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
  ASSERT_NE(keptFile(), "") << outcome.output;
  EXPECT_EQ(contentOf(keptFile()), whole);
  EXPECT_NE(outcome.output.find(
                "error: --params-out /dev/full: cannot be written: No space "
                "left on device; they are in "),
            std::string::npos)
      << outcome.output;
  EXPECT_NE(outcome.output.find(keptFile() + " instead"), std::string::npos)
      << outcome.output;
}

TEST_F(OutputTest, ParametersOfRanksAreKeptElsewhere) {
  object = linearStep(2, 2, 1).build(folder);
  std::string whole = expected("--params-out", "out");
  Outcome outcome = run("--params-out=/dev/full --trace=/dev/full");
  EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
  size_t kept = 0;
  for (const auto &file : fs::directory_iterator(folder.file("here")))
    if (file.path().extension() == ".safetensors")
      kept += contentOf("here/" + file.path().filename().string()) == whole;
    else
      kept += file.path().string().ends_with(".trace.json");
  EXPECT_EQ(kept, 2u) << outcome.output;
}

TEST_F(OutputTest, WhatCannotBeMadeIsRefusedBeforeTheFirstStep) {
  std::string name(256, 'n'), of = folder.path.string() + "/";
  for (std::string option :
       {"--json", "--params-out", "--trace", "--profile"}) {
    expectRefused(option + "=" + of + name, "File name too long");
    expectRefused(option + "=" + of + "absent/file", option + " ");
    if (option != "--params-out")
      expectRefused(option + "=" + of, option + " ");
  }
  EXPECT_FALSE(expected("--params-out", std::string(255, 'n')).empty());
}

// A disk of its own, of which the test knows how full it is.
TEST_F(OutputTest, ADiskThatIsFullIsNoticed) {
  std::string disk = folder.file("disk");
  fs::create_directory(disk);
  std::string mounted =
      "unshare -m sh -c 'mount -t tmpfs -o size=64k none " + disk + " && ";
  if (execute(mounted + "true'").exitCode != 0)
    GTEST_SKIP() << "this user may not mount";
  std::string full = mounted + "! cat /dev/zero > " + disk + "/all 2>&- ; ";
  Outcome outcome = execute(
      full + command(object, "--steps=2 --params-out=" + disk + "/out") + "'");
  EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
  EXPECT_EQ(count(outcome.output, "step 1"), 0u) << outcome.output;
  EXPECT_NE(outcome.output.find("bytes to be left on the disk for it, got 0"),
            std::string::npos)
      << outcome.output;
  // A line that was written in part is removed.
  outcome = execute(full + "cd " + folder.path.string() + " && " +
                    command(object, "--steps=2 --json=" + disk + "/log") +
                    "; ls " + disk + "; wc -c < " + disk + "/log'");
  EXPECT_EQ(count(outcome.output, "warning: --json "), 1u) << outcome.output;
  EXPECT_EQ(count(outcome.output, "step 2 "), 1u) << outcome.output;
  EXPECT_NE(outcome.output.find("all\nlog\n0\n"), std::string::npos)
      << outcome.output;
}

TEST_F(OutputTest, NoFileIsNamedTwice) {
  std::string log = folder.file("log");
  expectRefused("--json=" + log + " --trace=" + folder.path.string() +
                    "/here/../log",
                "expected a file of its own, got the one of --json");
  fs::create_symlink("w.pt2", folder.file("link"));
  std::string before = contentOf("w.pt2"), y = contentOf("y.bin");
  expectRefused("--params-out=" + folder.file("link"), "the one of --weights");
  expectRefused("--json=" + folder.file("y.bin"), "the one of --input y");
  expectRefused("--profile=" + object, "the one of STEP");
  EXPECT_EQ(contentOf("w.pt2"), before);
  EXPECT_EQ(contentOf("y.bin"), y);
}

/// A folder with a checkpoint of two steps, and one with weights.
class OutputInsideTest : public OutputTest {
protected:
  OutputInsideTest() {
    Outcome outcome = run("--save-dir=" + saved + " --params-out=" + weights +
                          "/model.safetensors");
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
    for (const std::string &inside : {saved, weights})
      for (const auto &entry : fs::recursive_directory_iterator(inside))
        if (entry.is_regular_file())
          before[entry.path()] =
              contentOf(fs::relative(entry.path(), folder.path).string());
  }

  /// Expects that nothing in these folders has changed.
  void expectRefusedInside(const std::string &more,
                           const std::string &message) {
    expectRefused(more, message);
    size_t files = 0;
    for (const std::string &inside : {saved, weights})
      for (const auto &entry : fs::recursive_directory_iterator(inside))
        if (entry.is_regular_file()) {
          ++files;
          EXPECT_EQ(contentOf(fs::relative(entry.path(), folder.path).string()),
                    before[entry.path()])
              << entry.path();
        }
    EXPECT_EQ(files, before.size());
  }

  static std::string makeFolder(const std::string &path) {
    fs::create_directory(path);
    return path;
  }

  std::string saved = folder.file("run"),
              weights = makeFolder(folder.file("weights")),
              checkpoint = saved + "/step-00000002",
              index = checkpoint + "/index.json";
  std::map<fs::path, std::string> before;
};

TEST_F(OutputInsideTest, AFileOfACheckpointIsNoOutput) {
  const std::string rank = checkpoint + "/rank-00000-of-00001.safetensors";
  for (const std::string &from : {saved, checkpoint})
    for (const std::string &option :
         {"--params-out=" + rank, "--json=" + index, "--trace=" + rank,
          "--profile=" + index, "--json=" + checkpoint + "/log",
          "--params-out=" + checkpoint + "/"})
      expectRefusedInside("--resume=" + from + " " + option,
                          option.substr(0, option.find('=')) + " ");
  // Nor one of a checkpoint that is only written beside.
  expectRefusedInside("--json=" + index, "a place outside of checkpoints");
  expectRefusedInside("--save-dir=" + saved + " --json=" + saved +
                          "/step-00000009",
                      "which --save-dir names");
  expectRefusedInside("--save-dir=" + saved + " --json=" + saved + "/.lock",
                      "which --save-dir names");
}

TEST_F(OutputInsideTest, LinksToAFileThatIsReadAreNoOutputs) {
  const std::string soft = folder.file("soft"), hard = folder.file("hard");
  fs::create_symlink(index, soft);
  fs::create_hard_link(index, hard);
  for (const std::string &link : {soft, hard})
    expectRefusedInside("--resume=" + saved + " --json=" + link, "--json ");
  fs::create_directory_symlink(checkpoint, folder.file("latest"));
  expectRefusedInside("--resume=" + saved +
                          " --json=" + folder.file("latest/log"),
                      "which --resume names");
}

TEST_F(OutputInsideTest, AFolderOfWeightsIsReadWhole) {
  for (const char *name : {"/model.safetensors", "/other.safetensors", "/log"})
    expectRefusedInside("--weights=" + weights + " --profile=" + weights + name,
                        "which --weights names");
  expectRefusedInside("--weights=" + weights + " --tensorboard=" + weights,
                      "the one of --weights");
}

TEST_F(OutputInsideTest, OtherFilesMayBeInTheFolderOfARun) {
  for (const char *steps : {"3", "4"}) {
    Outcome outcome = execute(command(
        object, "--resume --save-dir=" + saved + " --json=" + saved +
                    "/log.jsonl --tensorboard=" + saved + " --steps=" + steps));
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  }
  EXPECT_EQ(readLog("run/log.jsonl").size(), 2u);
}

TEST_F(OutputTest, ANameThatIsNoUtf8LosesNoCheckpoint) {
  const std::string name = folder.file("y\xff.bin"), saved = folder.file("run");
  fs::copy_file(folder.file("y.bin"), name);
  const std::string options =
      "--save-dir=" + saved + " --resume --input y='" + name + "':u16";
  auto command = [&](int steps) {
    return execute("cd " + folder.path.string() +
                   " && timeout 60 " FCDP_RUN " " + object + " --weights=" +
                   folder.file("w.pt2") + " --input x=" + folder.file("x.npy") +
                   " " + options + " --steps=" + std::to_string(steps));
  };
  Outcome outcome = command(2);
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  const Json saving =
      Json::parse(contentOf("run/step-00000002/index.json"))["job"];
  EXPECT_TRUE(
      saving["inputs"]["y"].get<std::string>().ends_with("y\\xff.bin:u16"))
      << saving;
  // The same file as when the checkpoint was saved.
  outcome = command(3);
  EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output, "resumed from"), 1u) << outcome.output;
  EXPECT_EQ(count(outcome.output, "when the checkpoint was saved"), 0u)
      << outcome.output;
}

class ShrinkingFileTest : public LongRunFixture {};

TEST_F(ShrinkingFileTest, AnInputThatShrinksEndsTheJobWithItsName) {
  start("");
  fs::resize_file(folder.file("y.bin"), 0);
  EXPECT_EQ(waitForEnd(), 1);
  EXPECT_EQ(count(output(), "error:"), 1u);
  EXPECT_NE(output().find("y.bin: expected 192 bytes, as it had when it was "
                          "opened, got 0"),
            std::string::npos)
      << output().substr(output().size() - 500);
}

TEST_F(ShrinkingFileTest, WeightsAndObjectThatShrinkAreNotNeeded) {
  start("--params-out=" + folder.file("out"));
  fs::resize_file(folder.file("w.pt2"), 0);
  fs::resize_file(folder.file("step.so"), 0);
  size_t lines = readLog("log").size();
  while (readLog("log").size() < lines + 10)
    usleep(20000);
  kill(launcher, SIGTERM);
  EXPECT_EQ(waitForEnd(), 143);
}

class SecondJobTest : public LongRunFixture {};

TEST_F(SecondJobTest, FindsTheFilesLocked) {
  std::string out = folder.file("out"), other = folder.file("other");
  start("--params-out=" + out + " --trace=" + folder.file("trace"));
  std::string object = folder.file("one.so");
  fs::copy_file(linearStep(1, 1, 1).build(folder), object);
  for (std::string option :
       {"--json=" + folder.file("log"), "--params-out=" + out,
        "--trace=" + folder.file("trace")}) {
    Outcome outcome = execute(command(object, option));
    EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("another job writes this file"),
              std::string::npos)
        << outcome.output;
  }
  EXPECT_EQ(execute(command(object, "--params-out=" + other)).exitCode, 0);
  size_t lines = readLog("log").size();
  EXPECT_GE(lines, 3u);
  kill(launcher, SIGTERM);
  EXPECT_EQ(waitForEnd(), 143);
  EXPECT_GE(readLog("log").size(), lines);
  for (const auto &file : fs::directory_iterator(folder.path)) {
    std::string name = file.path().filename();
    EXPECT_FALSE(name.ends_with(".lock") || name.ends_with(".tmp")) << name;
  }
}

TEST_F(SecondJobTest, FindsTheLogLockedByWhateverLink) {
  start("");
  std::string object = folder.file("one.so");
  fs::copy_file(linearStep(1, 1, 1).build(folder), object);
  fs::create_symlink("log", folder.file("soft"));
  fs::create_hard_link(folder.file("log"), folder.file("hard"));
  for (const char *name : {"soft", "hard"}) {
    size_t lines = readLog("log").size();
    Outcome outcome =
        execute(command(object, std::string("--json=") + folder.file(name)));
    EXPECT_EQ(outcome.exitCode, 1) << outcome.output;
    EXPECT_NE(outcome.output.find("another job writes this file"),
              std::string::npos)
        << outcome.output;
    EXPECT_GE(readLog("log").size(), lines);
  }
  kill(launcher, SIGTERM);
  EXPECT_EQ(waitForEnd(), 143);
  EXPECT_EQ(readLog("log").at(0)["step"], 1);
  // The file is free when the job has ended.
  EXPECT_EQ(execute(command(object, "--json=" + folder.file("hard"))).exitCode,
            0);
}

// Renames that take longer than other ranks wait.
TEST_F(OutputTest, ASlowRenameLosesNothing) {
  object = linearStep(1, 2, 1).build(folder);
  std::string whole = expected("--params-out", "fast");
  std::ofstream(folder.file("slow.c"))
      << "#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <unistd.h>\n"
         "int rename(const char *from, const char *to) {\n"
         "  int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "
         "\"rename\");\n  sleep(5);\n  return real(from, to);\n}\n";
  std::string slow = folder.file("slow.so");
  ASSERT_EQ(execute("cc -shared -fPIC -o " + slow + " " + folder.file("slow.c"))
                .exitCode,
            0);
  Outcome outcome = run("--timeout=2 --params-out=" + folder.file("out"),
                        "export LD_PRELOAD=" + slow + "; ");
  std::vector<std::string> found;
  for (const auto &file : fs::directory_iterator(folder.path))
    if (std::string name = file.path().filename(); name.starts_with("out"))
      found.push_back(name);
  ASSERT_EQ(found.size(), 1u) << outcome.output;
  EXPECT_EQ(contentOf(found[0]), whole);
  if (found[0] != "out") {
    EXPECT_NE(
        outcome.output.find("the complete file is " + folder.file(found[0])),
        std::string::npos)
        << outcome.output;
  }
}

} // namespace
