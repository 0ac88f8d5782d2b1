// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Analysis/Accesses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace fcdp;

namespace {

constexpr char kSymbols[] = R"(
  fcdp.mesh @world(node = 2, local = 4)
  fcdp.parameter @w : tensor<1000xf32> unit "m" trainable names ["w"]
  fcdp.bucket @b unit "m" elements 8000 storage f32 wire bf16 trainable members [@w at 0]
)";
constexpr char kStates[] = R"(
  fcdp.state @s cache of @b in host : tensor<2000xbf16>
  fcdp.state @g grad of @b in device : tensor<1000xf32>
)";
constexpr char kUpdate[] =
    "fcdp.shard_update @b scale 1.0 with #fcdp.sgd<lr = 1.0, momentum = 0.0, "
    "dampening = 0.0, weight_decay = 0.0, nesterov = false>";

class AccessesTest : public testing::Test {
protected:
  AccessesTest() { context.loadDialect<FcdpDialect, func::FuncDialect>(); }

  /// Returns the accesses of the operations of `body`, each as "r NAME" or "w
  /// NAME", with "sum of " before the name of a parameter or bucket.
  std::vector<std::string> get(const std::string &body,
                               const std::string &states = kStates) {
    std::string text = kSymbols + states +
                       "func.func @f(%a: tensor<2000xbf16>, "
                       "%p: tensor<1000xf32>) {\n" +
                       body + "\nreturn\n}\n";
    ParserConfig config(&context, /*verifyAfterParse=*/false);
    module = parseSourceString<ModuleOp>(text, config);
    EXPECT_TRUE(module) << text;
    std::vector<std::string> found;
    Accesses accesses(*module);
    module->walk([&](Operation *op) {
      if (!op->getParentOfType<func::FuncOp>())
        return;
      for (const Access &access : accesses.get(op))
        found.push_back((access.isWrite ? "w " : "r ") +
                        std::string(access.isSumOf ? "sum of " : "") +
                        access.state.str());
    });
    return found;
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
};

using Names = std::vector<std::string>;

TEST_F(AccessesTest, CopiesReadOrWriteTheirState) {
  EXPECT_EQ(get("fcdp.cache_store %a to @s : tensor<2000xbf16>"), Names{"w s"});
  EXPECT_EQ(get("%l = fcdp.cache_load @s : tensor<2000xbf16>"), Names{"r s"});
}

TEST_F(AccessesTest, AViewIsReadByItsUsers) {
  std::string view = "%v = fcdp.read_state @g : tensor<1000xf32>\n";
  EXPECT_EQ(get(view), Names{});
  EXPECT_EQ(get(view + "%s = fcdp.add %v, %p : tensor<1000xf32>"),
            Names{"r g"});
}

TEST_F(AccessesTest, AnAccumulatorHasTheNameOfItsState) {
  EXPECT_EQ(get("fcdp.accumulate %p into @b add : tensor<1000xf32>"),
            (Names{"r g", "w g"}));
  EXPECT_EQ(get(kUpdate), (Names{"r g", "r b", "w b"}));
}

TEST_F(AccessesTest, BeforeStatesAnAccumulatorHasTheNameOfItsBucket) {
  EXPECT_EQ(
      get(std::string("fcdp.accumulate %p into @b add : tensor<1000xf32>\n") +
              kUpdate,
          ""),
      (Names{"r sum of b", "w sum of b", "r sum of b", "r b", "w b"}));
}

TEST_F(AccessesTest, ClippingAccessesAllAccumulators) {
  EXPECT_EQ(get("fcdp.clip_gradients to 1.0 scale 1.0"), (Names{"r g", "w g"}));
}

} // namespace
