// SPDX-License-Identifier: Apache-2.0
//
// The index of a checkpoint: what is written is read, and each mistake is an
// error that names its place.
#include "checkpoint/CheckpointIndex.h"
#include "checkpoint/Damage.h"
#include "checkpoint/SampleCheckpoint.h"
#include "plan/FakeStep.h"

#include <gtest/gtest.h>

using namespace fcdp;
using namespace fcdp::test;

namespace {

TEST(CheckpointIndexTest, WhatIsWrittenIsRead) {
  CheckpointIndex index = parseCheckpointIndex(sampleIndex(50).toJson());
  EXPECT_EQ(index.step, 50);
  EXPECT_EQ(index.worldSize, 2u);
  EXPECT_EQ(index.nodes, 1u);
  EXPECT_EQ(index.job["rows"], 8);
  ASSERT_EQ(index.states.size(), 2u);
  const CheckpointState &value = index.states[0], &buffer = index.states[1];
  EXPECT_EQ(value.names, (std::vector<std::string>{"w", "tied.w"}));
  EXPECT_EQ(value.updates, 50);
  EXPECT_EQ(value.trainable, true);
  EXPECT_FALSE(value.belongsToRanks());
  EXPECT_EQ(pieceName(value, value.pieces[1]), "value/w@4");
  EXPECT_EQ(buffer.persistent, true);
  EXPECT_TRUE(buffer.belongsToRanks());
  EXPECT_EQ(pieceName(buffer, buffer.pieces[1]), "buffer/b@0#1");
  EXPECT_EQ(index.toJson(), sampleIndex(50).toJson());
}

/// Two ranks on two nodes, each of which has its own values of one state.
CheckpointIndex indexOfNodes() {
  CheckpointIndex index = sampleIndex(50);
  index.nodes = 2;
  CheckpointState state{{"w"}, "residual", DType::F32, {3}};
  state.pieces = {{0, 0, 2, std::nullopt, 0},
                  {1, 2, 1, std::nullopt, 0},
                  {1, 0, 3, std::nullopt, 1}};
  index.states.push_back(state);
  return index;
}

TEST(CheckpointIndexTest, NodesHaveStatesOfTheirOwn) {
  CheckpointIndex index = parseCheckpointIndex(indexOfNodes().toJson());
  const CheckpointState &state = index.states.back();
  EXPECT_TRUE(state.belongsToNodes());
  EXPECT_FALSE(state.belongsToRanks());
  EXPECT_EQ(pieceName(state, state.pieces[1]), "residual/w@2#node0");
  EXPECT_EQ(pieceName(state, state.pieces[2]), "residual/w@0#node1");
  EXPECT_EQ(index.toJson(), indexOfNodes().toJson());
}

TEST(CheckpointIndexTest, EachNodeHasTheWholeState) {
  auto messageOf =
      [](void (*change)(std::vector<CheckpointPiece> &)) -> std::string {
    CheckpointIndex index = indexOfNodes();
    change(index.states.back().pieces);
    try {
      parseCheckpointIndex(index.toJson());
      return "";
    } catch (const std::runtime_error &error) {
      return error.what();
    }
  };
  using Pieces = std::vector<CheckpointPiece>;
  EXPECT_NE(messageOf([](Pieces &pieces) {
              pieces.pop_back();
            }).find("or of each of the 2 nodes, for residual/w"),
            std::string::npos);
  EXPECT_NE(messageOf([](Pieces &pieces) {
              pieces[0].length = 1;
            }).find("have a gap at element 1"),
            std::string::npos);
  EXPECT_NE(messageOf([](Pieces &pieces) {
              pieces[0].node = 2;
            }).find("pieces[0].node: expected an integer of at most 1"),
            std::string::npos);
  EXPECT_NE(messageOf([](Pieces &pieces) {
              pieces[0].rank = 0;
            }).find("to belong to a rank or to a node, got both"),
            std::string::npos);
  EXPECT_NE(messageOf([](Pieces &pieces) {
              pieces[2].node.reset();
              pieces[2].rank = 1;
            }).find("of each of the 2 ranks, or of each of the 2 nodes"),
            std::string::npos);
}

TEST(CheckpointIndexTest, TextThatIsNoJsonIsNotQuoted) {
  try {
    parseCheckpointIndex("{\"format\": \x01\xff}");
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "expected JSON, got text that is wrong at byte "
                               "12 of 14; is the file damaged?");
  }
}

/// An index without its digest, to be changed.
Json unsealed(int64_t step) {
  Json json = Json::parse(sampleIndex(step).toJson());
  json.erase("digest");
  return json;
}

std::string messageOf(const std::string &text) {
  try {
    parseCheckpointIndex(text);
    return "";
  } catch (const std::runtime_error &error) {
    return error.what();
  }
}

TEST(CheckpointIndexTest, NoBitOfItMayChange) {
  const std::string whole = sampleIndex(50).toJson();
  EXPECT_EQ(messageOf(whole), "");
  // The line end is not needed.
  for (size_t bit = 0; bit + 8 < whole.size() * 8; ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] ^= char(1 << bit % 8);
    ASSERT_NE(messageOf(damaged), "") << "bit " << bit << ": " << damaged;
  }
}

TEST(CheckpointIndexTest, ADigestOfAnotherTextIsTold) {
  std::string text = sampleIndex(50).toJson();
  text.replace(text.find("\"rows\":8"), 8, "\"rows\":9");
  EXPECT_NE(messageOf(text).find("index.digest: expected "), std::string::npos);
  EXPECT_NE(messageOf(text).find("; the index is damaged"), std::string::npos);
  // It is the last member.
  text = sampleIndex(50).toJson();
  text.insert(text.rfind('}'), ",\"more\":1");
  EXPECT_NE(messageOf(text).find("expected it to be the last member"),
            std::string::npos);
}

TEST(CheckpointIndexTest, TheFirstVersionHasNoDigests) {
  EXPECT_TRUE(parseCheckpointIndex(sampleIndex(50).toJson()).hasDigests());
  Json json = unsealed(50);
  json["version"] = 1;
  for (Json &file : json["files"])
    file.erase("digest");
  EXPECT_FALSE(parseCheckpointIndex(json.dump()).hasDigests());
}

TEST(CheckpointIndexTest, AKeyThatIsThereTwiceIsRefused) {
  std::string text = unsealed(50).dump();
  text.replace(text.find("\"rows\":8"), 8, "\"rows\":8,\"rows\":9");
  EXPECT_NE(messageOf(sealIndex(text)).find("got \"rows\" twice in one object"),
            std::string::npos)
      << messageOf(sealIndex(text));
}

struct BadIndex {
  const char *name;
  /// A place in the index, and the value it gets; null removes it.
  const char *pointer, *value;
  const char *message;
};

class BadIndexTest : public ::testing::TestWithParam<BadIndex> {};

TEST_P(BadIndexTest, IsRefused) {
  Json json = unsealed(50);
  Json::json_pointer pointer(GetParam().pointer);
  if (GetParam().value)
    json[pointer] = Json::parse(GetParam().value);
  else
    json[pointer.parent_pointer()].erase(pointer.back());
  try {
    parseCheckpointIndex(sealIndex(json.dump()));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().message),
              std::string::npos)
        << error.what();
  }
}

const BadIndex kBadIndices[] = {
    {"Format", "/format", "\"other\"",
     "index.format: expected \"fcdp-checkpoint\""},
    {"NewerVersion", "/version", "3", "index.version: expected version 1 or 2"},
    {"FirstVersionHasNone", "/version", "1",
     "index.digest: expected no digest in version 1"},
    {"NoDigestOfAFile", "/files/1/digest", nullptr,
     "index.files[1]: the key 'digest' is missing"},
    {"NoStep", "/step", nullptr, "index: the key 'step' is missing"},
    {"NegativeStep", "/step", "-1", "an integer of at least 0, got -1"},
    {"NoRanks", "/world_size", "0", "index.world_size: expected"},
    {"MoreNodesThanRanks", "/nodes", "3", "index.nodes: expected"},
    {"JobIsNoObject", "/job", "[]", "index.job: expected an object"},
    {"FileElsewhere", "/files/0/name", "\"../w\"",
     "index.files[0].name: expected the name of a file"},
    {"FileIsParent", "/files/0/name", "\"..\"",
     "index.files[0].name: expected the name of a file"},
    {"FileTwice", "/files/1/name", "\"rank-00000-of-00002.safetensors\"",
     "is listed twice"},
    {"NegativeBytes", "/files/0/bytes", "-1", "index.files[0].bytes"},
    {"NoNames", "/states/0/names", "[]",
     "index.states[0].names: expected at least one name"},
    {"NameTwice", "/states/0/names/1", "\"w\"", "there are two states value/w"},
    {"UnknownRole", "/states/0/role", "\"grad\"",
     "index.states[0].role: expected a known role, got \"grad\""},
    {"UnknownType", "/states/0/dtype", "\"F8\"", "index.states[0].dtype"},
    {"NegativeExtent", "/states/0/shape/0", "-2", "index.states[0].shape[0]"},
    {"HugeShape", "/states/0/shape", "[281474976710656, 4096]",
     "has too many elements"},
    {"NegativeUpdates", "/states/0/updates", "-1", "index.states[0].updates"},
    {"UnknownFile", "/states/0/pieces/0/file", "2",
     "index.states[0].pieces[0].file: expected an integer of at most 1"},
    {"NegativeOffset", "/states/0/pieces/0/offset", "-1",
     "pieces[0].offset: expected"},
    {"EmptyPiece", "/states/0/pieces/0/length", "0",
     "pieces[0].length: expected an integer of at least 1"},
    {"BehindTheEnd", "/states/0/pieces/1/length", "3",
     "pieces[1].length: expected an integer of at most 2"},
    {"Gap", "/states/0/pieces/0/length", "3",
     "the pieces of value/w have a gap at element 3"},
    {"Overlap", "/states/0/pieces/1",
     R"({"file": 1, "offset": 3, "length": 3})",
     "the pieces of value/w overlap at element 3"},
    {"TooShort", "/states/0/pieces/1/length", "1",
     "the pieces of value/w end at element 5 of 6"},
    {"NoPieces", "/states/0/pieces", "[]",
     "expected pieces of all ranks together, of"},
    {"UnknownRank", "/states/1/pieces/0/rank", "2", "pieces[0].rank: expected"},
    {"RankMissing", "/states/1/pieces",
     R"([{"file": 0, "offset": 0, "length": 2, "rank": 0}])",
     "of each of the 2 ranks, or of each of the 1 nodes, for buffer/b"},
    {"SomeOfRanks", "/states/1/pieces/1/rank", nullptr,
     "of each of the 2 ranks, or of each of the 1 nodes, for buffer/b"},
    {"StatesAreNoList", "/states", "{}", "index.states: expected an array"},
};

std::string nameOf(const ::testing::TestParamInfo<BadIndex> &info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Index, BadIndexTest, ::testing::ValuesIn(kBadIndices),
                         nameOf);

/// A complete checkpoint in a folder.
class CheckpointReaderTest : public ::testing::Test {
protected:
  CheckpointReaderTest() { saveSample(run(), 50); }

  std::string run() const { return folder.path.string(); }
  std::string path() const { return checkpointPath(run(), 50); }
  std::string file(const std::string &name) const {
    return path() + "/" + name;
  }

  /// Expects an error that begins with the file's path.
  void expectError(const std::string &name, const std::string &message) {
    try {
      readSample(path());
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_EQ(std::string(error.what()).find(file(name)), 0u) << error.what();
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  TemporaryFolder folder;
};

TEST_F(CheckpointReaderTest, ReadsAllRanges) {
  EXPECT_EQ(readSample(path()), 50);
  CheckpointReader reader(path());
  const CheckpointState *value = reader.find(kValueRole, {"w"});
  ASSERT_TRUE(value);
  for (int64_t first = 0; first < 6; ++first)
    for (int64_t count = 1; first + count <= 6; ++count) {
      std::vector<float> read(count);
      reader.read(*value, 0, first, count,
                  reinterpret_cast<std::byte *>(read.data()));
      for (int64_t i = 0; i < count; ++i)
        EXPECT_EQ(read[i], float(5000 + first + i));
    }
}

TEST_F(CheckpointReaderTest, MissingFile) {
  std::filesystem::remove(file("rank-00001-of-00002.safetensors"));
  expectError("rank-00001-of-00002.safetensors", "cannot be examined");
}

TEST_F(CheckpointReaderTest, TensorOfAnotherName) {
  std::string name = "rank-00001-of-00002.safetensors";
  std::string content = readFile(file(name));
  content.replace(content.find("value/w@4"), 9, "value/w@3");
  writeFile(file(name), content);
  expectError(name, "expected a header with the digest ");
  // Without digests the names alone tell.
  Json json = unsealed(50);
  json["version"] = 1;
  for (Json &file : json["files"])
    file.erase("digest");
  writeFile(file("index.json"), json.dump());
  expectError(name, "'value/w@4': expected a tensor of this name");
}

TEST_F(CheckpointReaderTest, AFileOfAnotherStep) {
  saveSample(run(), 60);
  const std::string name = "rank-00001-of-00002.safetensors";
  std::filesystem::copy_file(checkpointPath(run(), 60) + "/" + name, file(name),
                             std::filesystem::copy_options::overwrite_existing);
  expectError(name, "the file is damaged, or of another checkpoint");
  EXPECT_EQ(readSample(checkpointPath(run(), 60)), 60);
}

TEST_F(CheckpointReaderTest, AnIndexOfAnotherStep) {
  std::filesystem::rename(path(), checkpointPath(run(), 60));
  try {
    readSample(checkpointPath(run(), 60));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(
        std::string(error.what())
            .find("step-00000060/index.json: expected step 60, as the folder's "
                  "name says, got 50"),
        std::string::npos)
        << error.what();
  }
  // Another name says nothing.
  std::filesystem::rename(checkpointPath(run(), 60), run() + "/best");
  EXPECT_EQ(readSample(run() + "/best"), 50);
}

TEST_F(CheckpointReaderTest, DamageIsAnErrorAndNoCrash) {
  for (const char *name : {"index.json", "rank-00000-of-00002.safetensors"}) {
    std::string whole = readFile(file(name));
    size_t refused = 0;
    auto read = [&](size_t) {
      try {
        readSample(path());
      } catch (const std::exception &) {
        ++refused;
      }
    };
    forEachTruncation(file(name), read);
    // The index ends with a line end that nobody needs.
    EXPECT_GE(refused + 1, whole.size());
    writeFile(file(name), whole);
    refused = 0;
    forEachWrongByte(file(name), read);
    EXPECT_EQ(refused, whole.size());
    writeFile(file(name), whole);
    EXPECT_EQ(readSample(path()), 50);
  }
}

TEST_F(CheckpointReaderTest, FoldersOfARun) {
  saveSample(run(), 100);
  saveSample(run(), 123456789012);
  std::filesystem::create_directory(run() + "/step-00000200.partial");
  std::filesystem::create_directory(run() + "/step-00000300.removed");
  std::filesystem::create_directory(run() + "/step-400");
  writeFile(run() + "/step-00000500", "a file");
  EXPECT_EQ(listCheckpoints(run()),
            (std::vector<int64_t>{50, 100, 123456789012}));
  EXPECT_EQ(findCheckpoint(run()), run() + "/step-123456789012");
  EXPECT_EQ(findCheckpoint(path()), path());
  EXPECT_EQ(findCheckpoint(run() + "/none"), std::nullopt);
  EXPECT_THROW(findCheckpoint(run() + "/step-00000500"), std::runtime_error);
  EXPECT_THROW(findCheckpoint(run() + "/step-00000200.partial"),
               std::runtime_error);

  saveSample(run(), 123456789013, /*keep=*/2);
  EXPECT_EQ(listCheckpoints(run()),
            (std::vector<int64_t>{123456789012, 123456789013}));
  EXPECT_FALSE(std::filesystem::exists(run() + "/step-00000200.partial"));
  EXPECT_FALSE(std::filesystem::exists(run() + "/step-00000300.removed"));
  EXPECT_TRUE(std::filesystem::exists(run() + "/step-400"));
}

TEST_F(CheckpointReaderTest, AStepThatIsSavedAgain) {
  writeFile(path() + "/of the first", "");
  saveSample(run(), 50);
  EXPECT_FALSE(std::filesystem::exists(path() + "/of the first"));
  EXPECT_EQ(readSample(path()), 50);
  std::vector<std::string> left;
  for (const auto &entry : std::filesystem::directory_iterator(run()))
    left.push_back(entry.path().filename());
  EXPECT_EQ(left, std::vector<std::string>{"step-00000050"});
}

TEST_F(CheckpointReaderTest, AFileThatRankZeroDoesNotSee) {
  beginCheckpoint(run(), 60);
  try {
    commitCheckpoint(run(), sampleIndex(60));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("must be shared by all nodes"),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(findCheckpoint(run()), path());
}

} // namespace
