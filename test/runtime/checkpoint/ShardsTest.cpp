// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/Shards.h"
#include "checkpoint/CheckpointLayout.h"
#include "checkpoint/ParameterFiles.h"
#include "plan/Archive.h"
#include "plan/FakeStep.h"
#include "weights/MatchedWeights.h"
#include "weights/SafetensorsWriter.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <set>

using namespace fcdp;
using namespace fcdp::test;

namespace {

/// A bucket of 16 elements on 2 x 2 ranks: `a` [2, 3] at 0 and `b` [5] at 8,
/// and a persistent and a passing buffer.
class ShardsTest : public ::testing::Test {
protected:
  ShardsTest() {
    plan.mesh = {2, 2};
    plan::BucketT &bucket =
        *plan.buckets.emplace_back(std::make_unique<plan::BucketT>());
    bucket.name = "all";
    bucket.elements = 16;
    bucket.shardElements = 4;
    bucket.storage = plan::DType::f32;
    // Not in the order of their places.
    addParameter({"b", "b.again"}, {5}, 8);
    addParameter({"a"}, {2, 3}, 0);
    addBuffer("kept", {2}, std::nullopt);
    addBuffer("constant", {1}, 0);
    archive.weights = {{"a", "weight_0", 7, {2, 3}, {1, 2}}, // transposed
                       {"b.again", "weight_1", 7, {5}, {1}},
                       {"kept", "weight_2", 7, {2}, {1}}};
    archive.payloads = {{"weight_0", floatBytes({0, 3, 1, 4, 2, 5})},
                        {"weight_1", floatBytes({10, 11, 12, 13, 14})},
                        {"weight_2", floatBytes({20, 21})}};
    archive.write(folder.file("w.pt2"));
  }

  void addParameter(std::vector<std::string> names, Shape shape,
                    uint64_t offset) {
    plan::ParameterT &parameter =
        *plan.parameters.emplace_back(std::make_unique<plan::ParameterT>());
    parameter.names = std::move(names);
    parameter.shape = std::move(shape);
    parameter.dtype = plan::DType::f32;
    parameter.trainable = true;
    parameter.offsetElements = offset;
  }
  /// A buffer with a constant, or a persistent one.
  void addBuffer(const std::string &name, Shape shape,
                 std::optional<uint64_t> constant) {
    plan::BufferT &buffer =
        *plan.buffers.emplace_back(std::make_unique<plan::BufferT>());
    buffer.name = name;
    buffer.shape = std::move(shape);
    buffer.dtype = plan::DType::f32;
    buffer.persistent = buffer.mutable_ = !constant;
    buffer.constantOffset = constant;
  }

  std::vector<float> shardOfRank(uint32_t rank, const std::string &file) {
    std::vector<float> shard(plan.buckets[0]->shardElements, -1);
    auto source = openWeights(file);
    loadShards(
        plan, placeOf(plan.mesh, rank), *source,
        [&](size_t) { return std::as_writable_bytes(std::span(shard)); },
        [](size_t) -> std::span<std::byte> {
          throw std::logic_error("the bucket has no master");
        });
    return shard;
  }

  /// Cuts the bucket over other ranks.
  void cut(plan::Sharding sharding) {
    plan::BucketT &bucket = *plan.buckets[0];
    bucket.sharding = sharding;
    bucket.shardElements = 16 / countParts(sharding, plan.mesh);
  }

  TemporaryFolder folder;
  Archive archive;
  StepPlan plan;
};

using Floats = std::vector<float>;

TEST_F(ShardsTest, RankOwnsShardOfItsLocalAndNode) {
  // Rank (n, l) owns shard 2 l + n; world rank is 2 n + l.
  std::string file = folder.file("w.pt2");
  EXPECT_EQ(shardOfRank(0, file), (Floats{0, 1, 2, 3}));
  EXPECT_EQ(shardOfRank(2, file), (Floats{4, 5, 0, 0}));
  EXPECT_EQ(shardOfRank(1, file), (Floats{10, 11, 12, 13}));
  EXPECT_EQ(shardOfRank(3, file), (Floats{14, 0, 0, 0}));
}

TEST_F(ShardsTest, NodesOwnTheSameSlices) {
  cut(plan::Sharding::node);
  std::string file = folder.file("w.pt2");
  for (uint32_t node : {0, 1}) {
    EXPECT_EQ(shardOfRank(2 * node, file), (Floats{0, 1, 2, 3, 4, 5, 0, 0}));
    EXPECT_EQ(shardOfRank(2 * node + 1, file),
              (Floats{10, 11, 12, 13, 14, 0, 0, 0}));
  }
  EXPECT_EQ(ownersOf(*plan.buckets[0], plan.mesh),
            (std::vector<uint32_t>{0, 1}));
}

TEST_F(ShardsTest, RanksOwnTheWhole) {
  cut(plan::Sharding::none);
  Floats whole = {0, 1, 2, 3, 4, 5, 0, 0, 10, 11, 12, 13, 14, 0, 0, 0};
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shardOfRank(rank, folder.file("w.pt2")), whole);
  EXPECT_EQ(ownersOf(*plan.buckets[0], plan.mesh), (std::vector<uint32_t>{0}));
}

TEST_F(ShardsTest, RanksShareTheSavingOfWhatTheyAllHave) {
  auto saversOf = [&](plan::Sharding sharding) {
    cut(sharding);
    plan::BucketT &bucket = *plan.buckets[0];
    bucket.states = {{plan::StateRole::shard, plan::DType::f32,
                      plan::Buf(plan::Arena::device, 0,
                                bucket.shardElements * sizeof(float), 0, 0)},
                     {plan::StateRole::exp_avg, plan::DType::f32,
                      plan::Buf(plan::Arena::device, 64,
                                bucket.shardElements * sizeof(float), 0, 0)}};
    std::map<std::string, std::vector<uint32_t>> savers;
    CheckpointLayout layout(plan, /*randomBytes=*/1);
    for (const CheckpointState &state : layout.index.states)
      for (const CheckpointPiece &piece : state.pieces)
        if (!piece.rank)
          savers[state.names[0] + " " + state.role].push_back(piece.file);
    return savers;
  };
  using Savers = std::map<std::string, std::vector<uint32_t>>;
  // Who has saved the least saves next. The constant has one saver.
  EXPECT_EQ(saversOf(plan::Sharding::none), (Savers{{"a value", {0}},
                                                    {"b value", {1}},
                                                    {"a exp_avg", {2}},
                                                    {"b exp_avg", {3}},
                                                    {"constant buffer", {0}}}));
  // `a` is in the slices of local rank 0 alone, and `b` in those of 1.
  EXPECT_EQ(saversOf(plan::Sharding::node), (Savers{{"a value", {0}},
                                                    {"b value", {1}},
                                                    {"a exp_avg", {2}},
                                                    {"b exp_avg", {3}},
                                                    {"constant buffer", {0}}}));
  EXPECT_EQ(saversOf(plan::Sharding::world),
            (Savers{{"a value", {0, 2}},
                    {"b value", {1, 3}},
                    {"a exp_avg", {0, 2}},
                    {"b exp_avg", {1, 3}},
                    {"constant buffer", {0}}}));
}

// `a` is in elements 0 to 5 and `b` in 8 to 12; a slice has 8.
TEST_F(ShardsTest, NodesSaveTheirResiduals) {
  cut(plan::Sharding::world);
  plan.buckets[0]->states = {
      {plan::StateRole::residual, plan::DType::f32,
       plan::Buf(plan::Arena::host, 0, 8 * sizeof(float), 0, 0)}};
  CheckpointLayout layout(plan, /*randomBytes=*/1);
  std::map<std::string, std::vector<std::vector<int64_t>>> pieces;
  for (const CheckpointState &state : layout.index.states)
    if (state.role == "residual")
      for (const CheckpointPiece &piece : state.pieces)
        pieces[state.names[0]].push_back(
            {*piece.node, piece.file, piece.offset, piece.length});
  // `a` is in the slices of local rank 0 alone, and `b` in those of 1.
  EXPECT_EQ(pieces["a"],
            (std::vector<std::vector<int64_t>>{{0, 0, 0, 6}, {1, 2, 0, 6}}));
  EXPECT_EQ(pieces["b"],
            (std::vector<std::vector<int64_t>>{{0, 1, 0, 5}, {1, 3, 0, 5}}));
  auto paddingOf = [&](uint32_t local) {
    std::vector<std::pair<uint64_t, uint64_t>> ranges;
    for (const PaddingRange &range : paddingOfSlice(plan, 0, local))
      ranges.emplace_back(range.first, range.elements);
    return ranges;
  };
  using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(paddingOf(0), (Ranges{{6, 2}}));
  EXPECT_EQ(paddingOf(1), (Ranges{{5, 3}}));
}

// `a` is in f32 in the file, and `b` in bf16.
TEST_F(ShardsTest, MastersKeepWhatIsStoredInFloat32) {
  constexpr uint16_t kOne = 0x3f80, kThree = 0x4040;
  plan.mesh = {1, 1};
  cut(plan::Sharding::world);
  plan::BucketT &bucket = *plan.buckets[0];
  bucket.storage = plan::DType::bf16;
  bucket.states.emplace_back(plan::StateRole::master, plan::DType::f32,
                             plan::Buf(plan::Arena::device, 0, 64, 0, 0));
  for (auto &parameter : plan.parameters)
    parameter->dtype = plan::DType::bf16;
  SafetensorsWriter writer(
      folder.file("mixed.safetensors"),
      {{{"a"}, {2, 3}, DType::F32}, {{"b"}, {5}, DType::BF16}});
  // Halfway between two bf16, which rounds to the even one, and just above.
  Floats a = {1.00390625F, 0x1.010002p0F, -0.0F, 3, 0, 0};
  std::vector<uint16_t> b(5, kThree);
  writer.write(std::as_bytes(std::span(a)));
  writer.write(std::as_bytes(std::span(b)));
  writer.finish();

  std::vector<uint16_t> shard(16, 1);
  Floats master(16, 1);
  auto source = openWeights(folder.file("mixed.safetensors"));
  loadShards(
      plan, {0, 0}, *source,
      [&](size_t) { return std::as_writable_bytes(std::span(shard)); },
      [&](size_t) { return std::as_writable_bytes(std::span(master)); });
  EXPECT_EQ(master, (Floats{1.00390625F, 0x1.010002p0F, 0, 3, 0, 0, 0, 0, 3, 3,
                            3, 3, 3, 0, 0, 0}));
  EXPECT_TRUE(std::signbit(master[2]));
  EXPECT_EQ(shard, (std::vector<uint16_t>{kOne, kOne + 1, 0x8000, kThree, 0, 0,
                                          0, 0, kThree, kThree, kThree, kThree,
                                          kThree, 0, 0, 0}));
}

TEST_F(ShardsTest, FloatingTypesAreConverted) {
  plan.mesh = {1, 1};
  cut(plan::Sharding::world);
  const std::string path = folder.file("mixed.safetensors");
  SafetensorsWriter writer(path, {{{"a"}, {2, 3}, DType::F64},
                                  {{"b"}, {5}, DType::BF16},
                                  {{"kept"}, {2}, DType::F16}});
  const std::vector<double> a = {0x1.0000011p0, 2, 3, 4, 5, -0.0};
  const std::vector<uint16_t> b(5, 0x4040), kept = {0x3c00, 0x4000};
  writer.write(std::as_bytes(std::span(a)));
  writer.write(std::as_bytes(std::span(b)));
  writer.write(std::as_bytes(std::span(kept)));
  writer.finish();
  Floats shard = shardOfRank(0, path);
  EXPECT_EQ(shard, (Floats{0x1.000002p0F, 2, 3, 4, 5, 0, 0, 0, 3, 3, 3, 3, 3, 0,
                           0, 0}));
  EXPECT_TRUE(std::signbit(shard[5]));
  Floats buffer(2);
  loadBuffers(plan, *openWeights(path), [&](size_t) {
    return std::as_writable_bytes(std::span(buffer));
  });
  EXPECT_EQ(buffer, (Floats{1, 2}));
  EXPECT_EQ(MatchedWeights(plan, {path}).notes(),
            (std::vector<std::string>{
                path + " has 1 tensor in f16, converted to the step's f32",
                path + " has 1 tensor in bf16, converted to the step's f32",
                path + " has 1 tensor in f64, converted to the step's f32"}));
}

// Values cross the blocks in which elements are converted.
TEST(StoredTensor, ConvertsAnyPartOfLargeTensors) {
  std::vector<double> values(10'000);
  std::iota(values.begin(), values.end(), 0);
  StoredTensor tensor{
      {{10'000}, {1}}, DType::F64, std::as_bytes(std::span(values)), nullptr};
  Floats part(9'000);
  convertElements(tensor, 500, 9'000, DType::F32,
                  std::as_writable_bytes(std::span(part)).data());
  Floats expected(9'000);
  std::iota(expected.begin(), expected.end(), 500);
  EXPECT_EQ(part, expected);
}

TEST_F(ShardsTest, BuffersComeByName) {
  Floats kept(2), constant = {5};
  auto source = openWeights(folder.file("w.pt2"));
  loadBuffers(plan, *source, [&](size_t b) {
    return std::as_writable_bytes(std::span(b == 0 ? kept : constant));
  });
  EXPECT_EQ(kept, (Floats{20, 21}));
  EXPECT_EQ(constant, Floats{5});
}

TEST_F(ShardsTest, WeightsOfSeveralFilesUnderOtherNames) {
  plan.parameters[0]->names = {"model.b.weight"};
  plan.parameters[1]->names = {"model.c.a.weight"};
  auto write = [&](const std::string &file, const std::string &name,
                   const Shape &shape, const Floats &values) {
    SafetensorsWriter writer(folder.file(file), {{{name}, shape, DType::F32}});
    writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    return folder.file(file);
  };
  std::string first = write("a", "c.a.weight", {2, 3}, {0, 1, 2, 3, 4, 5});
  std::string second = write("b", "model.b.weight", {5}, {6, 7, 8, 9, 10});
  std::string buffer = write("kept", "kept", {2}, {20, 21});
  std::string unused = write("unused", "x", {1}, {1});
  MatchedWeights weights(plan, {first, second, buffer, unused});
  EXPECT_EQ(weights.notes(),
            (std::vector<std::string>{
                "the step's 'model.c.a.weight' is 'c.a.weight' in " + first,
                unused + " has 1 tensor that the step has not: 'x'"}));
  auto floats = [](const StoredTensor &tensor) {
    Floats values(numElements(tensor.shape));
    copyElements(tensor, 0, values.size(),
                 reinterpret_cast<std::byte *>(values.data()));
    return values;
  };
  EXPECT_EQ(floats(*weights.find("model.c.a.weight")),
            (Floats{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(floats(*weights.find("model.b.weight")), (Floats{6, 7, 8, 9, 10}));
  EXPECT_EQ(floats(*weights.find("kept")), (Floats{20, 21}));
  EXPECT_FALSE(weights.find("none"));
}

/// Bytes of a file that this process has mapped and in memory; -1 if it has not
/// mapped the file.
int64_t residentBytes(const std::string &path) {
  std::ifstream maps("/proc/self/smaps");
  bool isFile = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.ends_with(path))
      isFile = true;
    else if (isFile && line.starts_with("Rss:"))
      return std::stoll(line.substr(line.find_first_of("0123456789"))) * 1024;
  }
  return -1;
}

TEST_F(ShardsTest, OneBucketOfAFileIsInMemory) {
  constexpr int64_t elements = 1 << 20, buckets = 8;
  plan = StepPlan();
  plan.mesh = {1, 1};
  std::vector<SafetensorsWriter::Entry> entries;
  for (int64_t i = 0; i < buckets; ++i) {
    plan::BucketT &bucket =
        *plan.buckets.emplace_back(std::make_unique<plan::BucketT>());
    bucket.elements = bucket.shardElements = elements;
    bucket.storage = plan::DType::f32;
    addParameter({"p" + std::to_string(i)}, {elements}, 0);
    plan.parameters.back()->bucket = i;
    entries.push_back({plan.parameters.back()->names, {elements}, DType::F32});
  }
  Floats values(elements, 1);
  SafetensorsWriter writer(folder.file("large"), entries);
  for (int64_t i = 0; i < buckets; ++i)
    writer.write(std::as_bytes(std::span(values)));
  writer.finish();

  MatchedWeights source(plan, {folder.file("large")});
  std::vector<int64_t> resident;
  auto shard = [&](size_t) {
    resident.push_back(residentBytes(folder.file("large")));
    return std::as_writable_bytes(std::span(values));
  };
  loadShards(plan, {0, 0}, source, shard,
             [](size_t) { return std::span<std::byte>(); });
  resident.push_back(residentBytes(folder.file("large")));
  resident[0] = 0; // the header has been read
  // In front of each bucket, and at the end, nothing of the others is left.
  EXPECT_EQ(resident, std::vector<int64_t>(buckets + 1, 0));
}

TEST_F(ShardsTest, AllMissingWeightsAreListed) {
  plan.parameters[0]->names = {"c"};
  plan.parameters[1]->names = {"d"};
  std::string file = folder.file("w.pt2");
  try {
    MatchedWeights weights(plan, {file});
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_EQ(error.what(),
              file +
                  ": 'c': expected a tensor of this name, got none; give "
                  "the weights of the model that the step was compiled "
                  "from; also missing: 'd'; " +
                  file +
                  " has 2 tensors that the step has not: 'a', "
                  "'b.again'");
  }
}

/// Files of weights for a step with an adapter, beside those of ShardsTest.
class AdapterWeightsTest : public ShardsTest {
protected:
  AdapterWeightsTest() {
    plan.parameters[0]->names = {"m.a.original_module.weight",
                                 "m.tied.original_module.weight"};
    plan.parameters[1]->names = {"m.b.lora_A.default.weight"};
    plan.buffers[0]->name = "m.a.modules_to_save.default.weight";
    plan.buffers[0]->shape = {5};
  }

  using Tensors = std::map<std::string, Floats>;
  std::string write(const std::string &path, const Tensors &tensors) {
    std::vector<SafetensorsWriter::Entry> entries;
    for (const auto &[name, values] : tensors)
      entries.push_back(
          {{name},
           values.size() == 6 ? Shape{2, 3} : Shape{int64_t(values.size())},
           DType::F32});
    std::filesystem::create_directories(
        std::filesystem::path(folder.file(path)).parent_path());
    SafetensorsWriter writer(folder.file(path), entries);
    for (const auto &[name, values] : tensors)
      writer.write(std::as_bytes(std::span(values)));
    writer.finish();
    return folder.file(path);
  }
  Floats read(WeightSource &source, const std::string &name) {
    StoredTensor tensor = *source.find(name);
    Floats values(numElements(tensor.shape));
    copyElements(tensor, 0, values.size(),
                 reinterpret_cast<std::byte *>(values.data()));
    return values;
  }
  std::string errorOf(const std::vector<std::string> &given) {
    try {
      MatchedWeights weights(plan, given);
    } catch (const std::runtime_error &error) {
      return error.what();
    }
    return "";
  }

  const Floats five = {1, 1, 1, 1, 1}, other = {2, 2, 2, 2, 2}, six = Floats(6);
  std::string base = write("base", {{"m.a.weight", five}});
  std::string adapter = write("adapter_model.safetensors",
                              {{"base_model.model.m.a.weight", other},
                               {"base_model.model.m.b.lora_A.weight", six}});
};

TEST_F(AdapterWeightsTest, TheOrderOfFilesDoesNotDecide) {
  for (const auto &given : {std::vector{base, adapter}, {adapter, base}}) {
    MatchedWeights weights(plan, given);
    EXPECT_EQ(read(weights, "m.a.original_module.weight"), five);
    EXPECT_EQ(read(weights, "m.tied.original_module.weight"), five);
    EXPECT_EQ(read(weights, "m.a.modules_to_save.default.weight"), other);
    EXPECT_EQ(read(weights, "m.b.lora_A.default.weight"), six);
  }
}

TEST_F(AdapterWeightsTest, EquallySpecificValuesMustBeEqual) {
  std::string second = write("second", {{"m.a.weight", five}});
  EXPECT_EQ(errorOf({base, second, adapter}), "");
  second = write("second", {{"m.a.weight", other}});
  std::string end = " have different values, and both are "
                    "'m.a.original_module.weight' of the step, a tied "
                    "parameter; leave one of them out";
  EXPECT_EQ(errorOf({base, second, adapter}),
            base + ": 'm.a.weight' and 'm.a.weight' in " + second + end);
  std::string both =
      write("both", {{"m.a.weight", five}, {"m.tied.weight", other}});
  EXPECT_EQ(errorOf({both, adapter}),
            both + ": 'm.a.weight' and 'm.tied.weight' in " + both + end);
}

TEST_F(AdapterWeightsTest, NothingOfAnAdapterIsLeftOut) {
  std::string wide = write("wide/adapter_model.safetensors",
                           {{"base_model.model.m.a.weight", other},
                            {"base_model.model.m.b.lora_A.weight", six},
                            {"base_model.model.m.c.lora_A.weight", six}});
  EXPECT_EQ(errorOf({base, wide}),
            wide +
                ": expected an adapter of the step's model, got 1 tensor "
                "that the step has not: 'base_model.model.m.c.lora_A.weight'");
  std::string whole = write("whole", {{"m.b.lora_A.default.weight", six}});
  EXPECT_EQ(errorOf({base, adapter, whole}),
            adapter +
                ": 'base_model.model.m.b.lora_A.weight' of an adapter is "
                "not used, as the step's 'm.b.lora_A.default.weight' is "
                "'m.b.lora_A.default.weight' in " +
                whole + "; leave one of the files out");
}

TEST_F(AdapterWeightsTest, ATrainedAdapterHasItsOwnCopies) {
  std::string thin = write("thin/adapter_model.safetensors",
                           {{"base_model.model.m.b.lora_A.weight", six}});
  EXPECT_TRUE(
      errorOf({base, thin})
          .starts_with(base + ", " + thin +
                       ": 'm.a.modules_to_save.default.weight': expected"));
}

TEST_F(AdapterWeightsTest, SeveralAdaptersAreToldApart) {
  plan.parameters[1]->names = {"m.b.lora_A.one.weight"};
  plan.buffers[0]->name = "m.b.lora_A.two.weight";
  auto lora = [&](const std::string &name, float value) {
    return write(name + "/adapter_model.safetensors",
                 {{"base_model.model.m.b.lora_A.weight",
                   value == 6 ? six : Floats(5, value)}});
  };
  std::string first = lora("x", 6), second = lora("y", 4);
  EXPECT_NE(errorOf({base, first, second}).find("name the adapter"),
            std::string::npos);
  MatchedWeights named(plan, {base, "two=" + second, "one=" + first});
  EXPECT_EQ(read(named, "m.b.lora_A.two.weight"), Floats(5, 4));
  // With one of them named, the other file is for the other one.
  MatchedWeights rest(plan, {base, first, "two=" + second});
  EXPECT_EQ(read(rest, "m.b.lora_A.two.weight"), Floats(5, 4));
  // PEFT names a folder after its adapter.
  MatchedWeights folders(plan, {base, first, lora("two", 3)});
  EXPECT_EQ(read(folders, "m.b.lora_A.two.weight"), Floats(5, 3));
  EXPECT_EQ(errorOf({base, first, "three=" + second}),
            "three=" + second +
                ": expected the name of an adapter of the step ('one', "
                "'two') or of a module with weights ('m'), got 'three'");
}

TEST_F(ShardsTest, AnArchiveGivesWhatNoOtherFileHas) {
  SafetensorsWriter writer(folder.file("a"), {{{"a"}, {2, 3}, DType::F32}});
  Floats values(6, 9);
  writer.write(std::as_bytes(std::span(values)));
  writer.finish();
  std::string archived = folder.file("w.pt2"), own = folder.file("a");
  for (const auto &given : {std::vector{archived, own}, {own, archived}}) {
    MatchedWeights weights(plan, given);
    Floats found(6);
    copyElements(*weights.find("a"), 0, 6,
                 reinterpret_cast<std::byte *>(found.data()));
    EXPECT_EQ(found, values);
    EXPECT_EQ(weights.notes(),
              std::vector<std::string>{archived +
                                       ", an archive, gives 2 tensors that no "
                                       "other file has: 'b', 'kept'"});
  }
}

TEST_F(ShardsTest, MissingParameterIsNamed) {
  plan.parameters[1]->names = {"c"};
  try {
    shardOfRank(0, folder.file("w.pt2"));
    FAIL() << "expected an error";
  } catch (const std::runtime_error &error) {
    EXPECT_NE(std::string(error.what()).find("'c': expected a tensor"),
              std::string::npos);
  }
}

class SavedShardsTest : public ShardsTest,
                        public ::testing::WithParamInterface<plan::Sharding> {};

TEST_P(SavedShardsTest, ParametersComeBack) {
  cut(GetParam());
  Floats kept = {30, 31};
  std::string out = folder.file("out.safetensors");
  auto gather = [&](size_t) {
    std::vector<std::byte> all;
    for (uint32_t rank : ownersOf(*plan.buckets[0], plan.mesh)) {
      Floats shard = shardOfRank(rank, folder.file("w.pt2"));
      auto bytes = std::as_bytes(std::span(shard));
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  };
  auto buffer = [&](size_t) { return std::as_writable_bytes(std::span(kept)); };
  saveParameters(plan, {.path = out}, /*isWriter=*/false, gather, buffer);
  EXPECT_FALSE(std::filesystem::exists(out));
  saveParameters(plan, {.path = out}, /*isWriter=*/true, gather, buffer);
  for (uint32_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(shardOfRank(rank, out), shardOfRank(rank, folder.file("w.pt2")));
  auto source = openWeights(out);
  EXPECT_TRUE(source->find("b"));
  EXPECT_TRUE(source->find("b.again"));
  EXPECT_TRUE(source->find("kept"));
  EXPECT_FALSE(source->find("constant"));
}

INSTANTIATE_TEST_SUITE_P(Shardings, SavedShardsTest,
                         ::testing::Values(plan::Sharding::world,
                                           plan::Sharding::node,
                                           plan::Sharding::none));

/// Two buckets of one rank: `a` [2] and `b` [3], and the frozen `c` [1]; and a
/// persistent buffer.
class ParameterFilesTest : public ShardsTest {
protected:
  ParameterFilesTest() {
    plan = StepPlan();
    plan.mesh = {1, 1};
    for (bool isTrained : {true, false}) {
      plan::BucketT &bucket =
          *plan.buckets.emplace_back(std::make_unique<plan::BucketT>());
      bucket.elements = bucket.shardElements = 8;
      bucket.storage = plan::DType::f32;
      bucket.trainable = isTrained;
    }
    addParameter({"m.a.weight", "m.tied"}, {2}, 0);
    addParameter({"m.b.lora_A.default.weight"}, {3}, 4);
    addParameter({"m.c.weight"}, {1}, 0);
    plan.parameters[2]->bucket = 1;
    plan.parameters[2]->trainable = false;
    addBuffer("m.kept", {1}, std::nullopt);
  }

  void save(const ParameterOutput &output) {
    checkOutput(plan, output);
    saveParameters(
        plan, output, /*isWriter=*/true,
        [&](size_t b) {
          gathered.push_back(b);
          auto bytes = std::as_bytes(std::span(values[b]));
          return std::vector<std::byte>(bytes.begin(), bytes.end());
        },
        [&](size_t) { return std::as_writable_bytes(std::span(kept)); });
  }
  /// Values by name.
  std::map<std::string, Floats> read(const std::string &path) {
    std::map<std::string, Floats> found;
    auto source = openWeights(path);
    for (const std::string &name : source->names()) {
      StoredTensor tensor = *source->find(name);
      found[name].resize(numElements(tensor.shape));
      copyElements(tensor, 0, found[name].size(),
                   reinterpret_cast<std::byte *>(found[name].data()));
    }
    return found;
  }
  std::set<std::string> filesOf(const std::string &path) {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(path))
      names.insert(entry.path().filename());
    return names;
  }
  void expectError(const ParameterOutput &output, const std::string &message) {
    try {
      checkOutput(plan, output);
      FAIL() << "expected an error";
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos)
          << error.what();
    }
  }

  Floats values[2] = {{1, 2, 0, 0, 3, 4, 5, 0}, {6, 0, 0, 0, 0, 0, 0, 0}};
  Floats kept = {7};
  std::vector<size_t> gathered;
};

TEST_F(ParameterFilesTest, FilesOfAFolder) {
  std::map<std::string, Floats> all = {{"m.a.weight", {1, 2}},
                                       {"m.tied", {1, 2}},
                                       {"m.b.lora_A.default.weight", {3, 4, 5}},
                                       {"m.c.weight", {6}},
                                       {"m.kept", {7}}};
  save({.path = folder.file("one/")});
  EXPECT_EQ(filesOf(folder.file("one")),
            (std::set<std::string>{"model.safetensors"}));
  EXPECT_EQ(read(folder.file("one")), all);
  // 8 bytes, 12 bytes, and two of 4.
  save({.path = folder.file("two/"), .mostFileBytes = 10});
  EXPECT_EQ(filesOf(folder.file("two")),
            (std::set<std::string>{"model-00001-of-00003.safetensors",
                                   "model-00002-of-00003.safetensors",
                                   "model-00003-of-00003.safetensors",
                                   "model.safetensors.index.json"}));
  all.erase("m.tied"); // an index has each tensor once
  EXPECT_EQ(read(folder.file("two")), all);
  expectError({.path = folder.file("two")},
              "expected a folder without weights, got one with model");
}

TEST_F(ParameterFilesTest, OnlyWhatWasTrained) {
  save({.path = folder.file("out"), .onlyTrained = true});
  EXPECT_EQ(read(folder.file("out")),
            (std::map<std::string, Floats>{
                {"m.a.weight", {1, 2}},
                {"m.tied", {1, 2}},
                {"m.b.lora_A.default.weight", {3, 4, 5}}}));
  // Frozen buckets are not gathered.
  EXPECT_EQ(gathered, std::vector<size_t>{0});
  plan.parameters.erase(plan.parameters.begin(), plan.parameters.begin() + 2);
  expectError({.path = folder.file("none"), .onlyTrained = true},
              "expected parameters to write, got none");
}

TEST_F(ParameterFilesTest, NamesOfAnotherFile) {
  auto write = [&](const std::string &name, const Shape &shape) {
    SafetensorsWriter writer(folder.file(name),
                             {{{"base.b.lora_A.weight"}, shape, DType::F32},
                              {{"base.a.weight"}, {2}, DType::F32}});
    Floats zeros(numElements(shape) + 2);
    writer.write(std::as_bytes(std::span(zeros)));
    writer.finish();
    return folder.file(name);
  };
  save({.path = folder.file("out"), .like = write("like", {3})});
  EXPECT_EQ(
      read(folder.file("out")),
      (std::map<std::string, Floats>{{"base.a.weight", {1, 2}},
                                     {"base.b.lora_A.weight", {3, 4, 5}}}));
  expectError({.path = folder.file("x"), .like = write("wide", {4})},
              "'base.b.lora_A.weight': expected shape [3], got [4]");
  plan.parameters.erase(plan.parameters.begin());
  expectError({.path = folder.file("x"), .like = folder.file("like")},
              "got 'base.a.weight', which the step has not");
}

TEST_F(ParameterFilesTest, AllNamesOfATiedParameterInAnotherFile) {
  Floats zeros(4);
  std::string apart = folder.file("apart"), shared = folder.file("shared");
  SafetensorsWriter writer(
      apart, {{{"a.weight"}, {2}, DType::F32}, {{"tied"}, {2}, DType::F32}});
  writer.write(std::as_bytes(std::span(zeros)));
  writer.finish();
  SafetensorsWriter other(shared, {{{"a.weight", "tied"}, {2}, DType::F32}});
  other.write(std::as_bytes(std::span(zeros).first(2)));
  other.finish();
  std::map<std::string, Floats> both = {{"a.weight", {1, 2}}, {"tied", {1, 2}}};
  for (const auto &[like, isApart] :
       {std::pair(apart, true), std::pair(shared, false)}) {
    std::string out = folder.file(isApart ? "out-apart" : "out-shared");
    save({.path = out, .like = like});
    EXPECT_EQ(read(out), both);
    // Readers that know no second names find what the other file has.
    auto source = openWeights(out);
    EXPECT_EQ(source->find("a.weight")->storage.data() !=
                  source->find("tied")->storage.data(),
              isApart);
  }
}

TEST_F(ParameterFilesTest, TheNamesOfPeft) {
  plan.parameters[0]->names = {"m.a.modules_to_save.x.weight",
                               "m.tied.modules_to_save.x.weight"};
  plan.parameters[1]->names = {"m.b.lora_magnitude_vector.x.weight"};
  plan.parameters[2]->names = {"m.a.original_module.weight"};
  const std::map<std::string, Floats> stored = {
      {"base_model.model.m.a.weight", {1, 2}},
      {"base_model.model.m.tied.weight", {1, 2}},
      {"base_model.model.m.b.lora_magnitude_vector", {3, 4, 5}}};
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto &[name, values] : stored)
    entries.push_back({{name}, {int64_t(values.size())}, DType::F32});
  std::string like = folder.file("adapter_model.safetensors");
  Floats zeros(7);
  SafetensorsWriter writer(like, entries);
  writer.write(std::as_bytes(std::span(zeros)));
  writer.finish();
  save({.path = folder.file("out"), .like = like});
  EXPECT_EQ(read(folder.file("out")), stored);
  save({.path = folder.file("again"), .like = "x=" + like});
  EXPECT_EQ(read(folder.file("again")), stored);
}

TEST_F(ParameterFilesTest, NothingStaysOfAnUnfinishedFolder) {
  EXPECT_THROW(saveParameters(
                   plan, {.path = folder.file("out/"), .mostFileBytes = 10},
                   /*isWriter=*/true,
                   [&](size_t b) -> std::vector<std::byte> {
                     if (b == 1)
                       throw std::runtime_error("lost");
                     return std::vector<std::byte>(32);
                   },
                   [&](size_t) { return std::span<std::byte>(); }),
               std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("out")));
}

} // namespace
