// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Cluster/Profile.h"
#include "fcdp/Cluster/ProfileProducts.h"

#include "gtest/gtest.h"

using namespace fcdp;

namespace {
constexpr char kGood[] = R"text({"version": 1,
 "nodes": 2, "ranks_per_node": 4,
 "steps": 5,
 "operators": [
  {"operator": "aten.mm.default(f32[2,3], f32[3,2]) -> f32[2,2]", "calls": 3, "seconds": 0.5},
  {"operator": "aten.t.default(f32[2,3])", "calls": 1, "seconds": 0}],
 "operations": [
  {"kind": "all_gather", "axis": "node", "bytes": 200, "calls": 1, "seconds": 3},
  {"kind": "all_gather", "axis": "node", "bytes": 100, "calls": 1, "seconds": 1},
  {"kind": "cache_store", "bytes": 64, "calls": 1, "seconds": 2}]}
)text";

/// Returns the error for the valid text with its first `from` replaced.
std::string complain(const std::string &from, const std::string &to) {
  std::string text = kGood;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  auto profile = parseProfile({text, "p.json"});
  return profile ? "" : llvm::toString(profile.takeError());
}
} // namespace

TEST(Profile, Parses) {
  Profile profile = llvm::cantFail(parseProfile({kGood, "p.json"}));
  EXPECT_EQ(profile.nodes, 2);
  EXPECT_EQ(profile.ranksPerNode, 4);
  EXPECT_EQ(profile.operators.size(), 2u);
  EXPECT_EQ(profile.operators.lookup(
                "aten.mm.default(f32[2,3], f32[3,2]) -> f32[2,2]"),
            0.5);
  ASSERT_EQ(profile.operations.size(), 2u);
  const Profile::Curve &gather = profile.operations.at("all_gather node");
  ASSERT_EQ(gather.size(), 2u);
  EXPECT_EQ(gather[0].bytes, 100);
  EXPECT_EQ(gather[1].seconds, 3);
  EXPECT_EQ(profile.operations.at("cache_store")[0].seconds, 2);
}

TEST(Profile, NamesTheLineOfWhatIsWrong) {
  struct Case {
    std::string from, to;
    /// The error without the file's name.
    std::string error;
  };
  const std::string product = "aten.mm.default(f32[2,3], f32[3,2]) -> f32[2,2]";
  const Case cases[] = {
      {R"("version": 1)", R"("version": 2)",
       "1: error: expected version 1, got 2; make the profile with the "
       "fcdp-run of this fcdp"},
      {R"("version": 1,)", "", "1: error: expected a member 'version'"},
      {R"("nodes": 2, )", "", "1: error: expected a member 'nodes'"},
      {R"("ranks_per_node": 4)", R"("ranks_per_node": 0)",
       "2: error: expected a whole number of at least 1, got '0,'"},
      {R"("steps")", R"("step")",
       "3: error: expected one of 'version', 'nodes', 'ranks_per_node', "
       "'steps', 'operators', 'operations', got 'step'"},
      {"0.5", "-0.5",
       "5: error: expected 0 or a positive number, got '-0.5},'"},
      {R"(, "seconds": 0})", "}", "6: error: expected a member 'seconds'"},
      {"aten.t.default(f32[2,3])", product,
       "6: error: expected '" + product + "' once"},
      {R"x("operator": "aten.t.default(f32[2,3])", )x", "",
       "6: error: expected a member 'operator'"},
      {R"("bytes": 100)", R"("bytes": 200)",
       "9: error: expected 'all_gather node' of 200 bytes once"},
      {R"("axis": "node", )", "",
       "8: error: expected the 'axis' of 'all_gather' to be one of 'node', "
       "'local', 'world', got ''"},
      {"cache_store", "cache_keep",
       "10: error: expected 'kind' to be one of 'all_gather', "
       "'all_gather_delta', 'reduce_scatter', 'reduce_scatter_coded', "
       "'reduce_scatter_int8', 'reduce_scatter_int4', "
       "'cache_store', 'cache_load', 'cast', 'pack', "
       "'accumulate', 'add', 'shard_update', 'clip_gradients', "
       "'unscale_gradients', got 'cache_keep'"},
      {R"("cache_store")", R"("cache_store", "axis": "node")",
       "10: error: expected no 'axis' of 'cache_store'"},
      {R"("kind": "cache_store", )", "", "10: error: expected a member 'kind'"},
      {R"("bytes": 64, )", "", "10: error: expected a member 'bytes'"},
      {"]}", "] 7", "10: error: expected ',' or '}'"},
  };
  for (const Case &wrong : cases)
    EXPECT_EQ(complain(wrong.from, wrong.to), "p.json:" + wrong.error);
}

TEST(Profile, ReadsBetweenPointsAndScalesTheEstimateBeyond) {
  Profile::Curve curve = {{100, 1}, {200, 3}};
  auto estimate = [](double bytes) { return bytes / 1000; };
  EXPECT_DOUBLE_EQ(readCurve(curve, 100, estimate), 1);
  EXPECT_DOUBLE_EQ(readCurve(curve, 150, estimate), 2);
  EXPECT_DOUBLE_EQ(readCurve(curve, 200, estimate), 3);
  // 10 and 15 times the estimate.
  EXPECT_DOUBLE_EQ(readCurve(curve, 50, estimate), 0.5);
  EXPECT_DOUBLE_EQ(readCurve(curve, 400, estimate), 6);
  EXPECT_DOUBLE_EQ(readCurve({{100, 1}}, 50, [](double) { return 0.0; }), 0);
}

TEST(Profile, ProductsCorrectThoseOfOtherShapes) {
  Profile profile;
  profile.operators["aten.mm.default(f32[4,2], f32[2,8]) -> f32[4,8]"] = 2;
  profile.operators["aten.bmm.default(bf16[3,4,2], bf16[3,2,8]) -> "
                    "bf16[3,4,8]"] = 4;
  // No products, or no rate for their type.
  profile.operators["aten.add.Tensor(f32[4,2], f32[4,2]) -> f32[4,2]"] = 1;
  profile.operators["aten.mm.default(i64[4,2], i64[2,8]) -> i64[4,8]"] = 1;
  profile.operators["aten.mm.default(f32[4,2])"] = 1;
  profile.operators["aten.mm.default(f32[4,0], f32[0,8]) -> f32[4,8]"] = 1;
  std::vector<MeasuredProduct> products = collectProducts(profile);
  ASSERT_EQ(products.size(), 2u);
  if (products[0].type != RateType::f32)
    std::swap(products[0], products[1]);
  EXPECT_EQ(products[0].type, RateType::f32);
  EXPECT_EQ(products[0].flops, 2.0 * 4 * 2 * 8 / 2);
  EXPECT_EQ(products[1].type, RateType::bf16);
  EXPECT_EQ(products[1].shape.batch, 3);
  EXPECT_EQ(products[1].shape.m, 4);
  EXPECT_EQ(products[1].shape.n, 8);
  EXPECT_EQ(products[1].shape.k, 2);
  EXPECT_EQ(products[1].flops, 3 * 2.0 * 4 * 2 * 8 / 4);
}
