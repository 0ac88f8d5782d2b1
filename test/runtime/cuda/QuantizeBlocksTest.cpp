// SPDX-License-Identifier: Apache-2.0
//
// Compiles the source of the device's rounding for the host and compares it
// with the CPU's, bit by bit.

#include "cuda/QuantizeBlocks.h"
#include "Rounding.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace fcdp;

namespace {

constexpr uint64_t kWarps = 3;
template <typename In, typename Block>
void compareCodes(const Rounding &given, const char *kernel) {
  Rounding expected = given, got = given;
  expected.quantizeOnCpu();
  cuda::QuantizeArguments arguments{
      got.values.data(),
      got.residual.data(),
      reinterpret_cast<uint8_t *>(got.messages.data()),
      got.messageBytes,
      got.elements,
      kRoundingRank,
      kRoundingRanks};
  for (uint64_t warp = 0; warp < kWarps; ++warp)
    cuda::quantizeParts<In, Block>(arguments, warp, kWarps);
  EXPECT_EQ(std::memcmp(got.residual.data(), expected.residual.data(),
                        got.residual.size() * sizeof(float)),
            0)
      << kernel << " of " << given.elements;
  for (uint32_t rank = 0; rank < kRoundingRanks; ++rank) {
    if (rank == kRoundingRank)
      continue;
    auto ours = got.message(got.messages, rank).subspan(kMessageHeaderBytes),
         theirs = expected.message(expected.messages, rank)
                      .subspan(kMessageHeaderBytes);
    EXPECT_TRUE(std::ranges::equal(ours, theirs))
        << kernel << " of " << given.elements << " for rank " << rank;
  }
}

template <typename In, typename Out, typename Block>
void compareSums(Rounding given, DType outType, const char *kernel) {
  given.quantizeOnCpu();
  const std::vector<std::byte> expected = given.sumOnCpu(outType);
  std::vector<std::byte> got(expected.size());
  cuda::SumMessagesArguments arguments{
      given.values.data() + kRoundingRank * given.partBytes,
      reinterpret_cast<const uint8_t *>(given.messages.data()),
      given.messageBytes,
      got.data(),
      given.elements,
      kRoundingRank,
      kRoundingRanks};
  for (uint64_t warp = 0; warp < kWarps; ++warp)
    cuda::sumMessages<In, Out, Block>(arguments, warp, kWarps);
  const auto *ours =
      reinterpret_cast<const typename Out::Storage *>(got.data());
  const auto *theirs =
      reinterpret_cast<const typename Out::Storage *>(expected.data());
  for (uint64_t i = 0; i < given.elements; ++i) {
    const float own = Out::load(ours[i]), other = Out::load(theirs[i]);
    // IEEE 754 does not define which NaN results.
    ASSERT_TRUE((std::isnan(own) && std::isnan(other)) || ours[i] == theirs[i])
        << kernel << " of " << given.elements << ": element " << i << ": "
        << own << ", not " << other;
  }
}

template <typename Block>
constexpr WireCode codeOf =
    std::is_same_v<Block, cuda::Int8Block> ? WireCode::Int8 : WireCode::Int4;

constexpr uint64_t kElements[] = {1, 127, 128, 256, 1000, 4999};

} // namespace

TEST(QuantizeBlocks, CodesAndResidualsHaveTheBitsOfTheCpu) {
  for (uint64_t elements : kElements) {
#define FCDP_COMPARE(name, In, Block)                                          \
  compareCodes<cuda::In, cuda::Block>(                                         \
      Rounding(codeOf<cuda::Block>, DType::In, elements), #name);
    FCDP_QUANTIZE_KERNELS(FCDP_COMPARE)
#undef FCDP_COMPARE
  }
}

TEST(QuantizeBlocks, SumsHaveTheBitsOfTheCpu) {
  for (uint64_t elements : kElements) {
#define FCDP_COMPARE(name, In, Out, Block)                                     \
  compareSums<cuda::In, cuda::Out, cuda::Block>(                               \
      Rounding(codeOf<cuda::Block>, DType::In, elements), DType::Out, #name);
    FCDP_SUM_MESSAGES_KERNELS(FCDP_COMPARE)
#undef FCDP_COMPARE
  }
}
