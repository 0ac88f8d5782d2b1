// SPDX-License-Identifier: Apache-2.0
//
// Compiles the source of the device's sums for the host and compares it with
// the CPU backend, bit by bit.

#include "cuda/SumChunks.h"
#include "core/SumKernels.h"

#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace fcdp;

namespace {

template <typename In, typename Out>
std::vector<std::byte> sum(const cuda::SumChunksArguments &given) {
  std::vector<std::byte> out(given.elements * sizeof(typename Out::Storage));
  cuda::SumChunksArguments arguments = given;
  arguments.out = out.data();
  constexpr uint64_t threads = 3;
  for (uint64_t thread = 0; thread < threads; ++thread)
    cuda::sumChunks<In, Out>(arguments, thread, threads);
  return out;
}

/// Chunks of random bits on a rank, and their sum on the CPU.
struct Case {
  Case(uint32_t rank, uint32_t nodes, uint32_t locals, DType inType,
       uint64_t elements)
      : ranks(nodes * locals), inType(inType),
        scratch(ranks * elements * byteSize(inType)),
        own(elements * byteSize(inType)) {
    std::mt19937 random(ranks * 100 + rank);
    for (auto *bytes : {&scratch, &own})
      for (std::byte &byte : *bytes)
        byte = std::byte(random());
    arguments = {own.data(), scratch.data(), nullptr, elements,
                 rank,       nodes,          locals};
  }
  /// Returns how many vectors of a chunk are summed as such.
  uint64_t vectors() const {
    // The sum's memory is aligned, as null is.
    return cuda::countVectors(arguments, byteSize(inType));
  }
  std::vector<std::byte> expected(DType outType) const {
    std::vector<const std::byte *> chunks;
    for (uint32_t node = 0; node < arguments.nodes; ++node)
      for (uint32_t local = 0; local < arguments.locals; ++local) {
        uint32_t rank = local * arguments.nodes + node;
        chunks.push_back(rank == arguments.rank
                             ? own.data()
                             : scratch.data() + rank * own.size());
      }
    std::vector<std::byte> out(arguments.elements * byteSize(outType));
    sumGroups(out.data(), outType, chunks, arguments.locals, inType,
              arguments.elements);
    return out;
  }

  const uint32_t ranks;
  const DType inType;
  std::vector<std::byte> scratch, own;
  cuda::SumChunksArguments arguments;
};

/// Returns bits, with one value for all NaNs, because IEEE 754 does not define
/// which NaN results.
template <typename Type>
std::vector<typename Type::Storage>
values(const std::vector<std::byte> &bytes) {
  std::vector<typename Type::Storage> all(bytes.size() /
                                          sizeof(typename Type::Storage));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

template <typename Type>
void expectSame(const std::vector<std::byte> &got,
                const std::vector<std::byte> &want, const std::string &where) {
  auto gotValues = values<Type>(got), wantValues = values<Type>(want);
  ASSERT_EQ(gotValues.size(), wantValues.size());
  for (size_t i = 0; i < gotValues.size(); ++i) {
    auto ours = Type::load(gotValues[i]), theirs = Type::load(wantValues[i]);
    if (ours != ours && theirs != theirs)
      continue;
    ASSERT_EQ(std::memcmp(&gotValues[i], &wantValues[i], sizeof(gotValues[i])),
              0)
        << where << ": element " << i << ": " << ours << ", not " << theirs;
  }
}

template <typename In, typename Out>
void compare(const Case &given, DType outType, const std::string &where) {
  expectSame<Out>(sum<In, Out>(given.arguments), given.expected(outType),
                  where);
}

} // namespace

// Chunks of 4999 elements begin at places that are no multiple of a vector.
TEST(SumChunks, HasTheBitsOfTheCpu) {
  for (uint64_t elements : {4999, 5000})
    for (auto [nodes, locals] : {std::pair{1u, 1u},
                                 {2u, 1u},
                                 {3u, 1u},
                                 {8u, 1u},
                                 {2u, 2u},
                                 {3u, 2u},
                                 {2u, 3u},
                                 {1u, 4u}})
      for (uint32_t rank = 0; rank < nodes * locals; ++rank) {
#define FCDP_COMPARE(name, In, Out)                                            \
  compare<cuda::In, cuda::Out>(Case(rank, nodes, locals, DType::In, elements), \
                               DType::Out, #name);
        FCDP_SUM_KERNELS(FCDP_COMPARE)
#undef FCDP_COMPARE
      }
}

TEST(SumChunks, LoadsVectorsOfAlignedChunks) {
  EXPECT_EQ(Case(0, 2, 1, DType::BF16, 5000).vectors(), 625u);
  EXPECT_EQ(Case(0, 2, 1, DType::F64, 5000).vectors(), 2500u);
  EXPECT_EQ(Case(0, 2, 1, DType::BF16, 4999).vectors(), 0u);
  // The only chunk may end within a vector.
  EXPECT_EQ(Case(0, 1, 1, DType::BF16, 4999).vectors(), 624u);
  Case shifted(0, 2, 1, DType::F32, 5000);
  shifted.arguments.own = shifted.own.data() + 4;
  EXPECT_EQ(shifted.vectors(), 0u);
}

TEST(SumChunks, AddsEveryElementOnce) {
  constexpr uint64_t threads = 3, elements = 103;
  for (uint64_t shift : {0, 1}) {
    alignas(cuda::kVectorBytes) float sum[elements + 1], part[elements + 1];
    for (uint64_t i = 0; i <= elements; ++i) {
      sum[i] = float(i);
      part[i] = 1.0f / float(i + 3);
    }
    EXPECT_EQ(cuda::countVectors(sum + shift, part, elements),
              shift ? 0u : 25u);
    for (uint64_t thread = 0; thread < threads; ++thread)
      cuda::addInPlace(sum + shift, part, elements, thread, threads);
    for (uint64_t i = 0; i < elements; ++i)
      ASSERT_EQ(sum[i + shift], float(i + shift) + part[i]) << i;
  }
}

// Every value of the small types, one by one.
TEST(SumChunks, ConvertsEveryValueAsTheCpuDoes) {
  constexpr uint64_t elements = 1 << 16;
  Case half(0, 1, 1, DType::F16, elements),
      brain(0, 1, 1, DType::BF16, elements);
  for (uint32_t i = 0; i < elements; ++i) {
    auto bits = uint16_t(i);
    std::memcpy(half.own.data() + 2 * i, &bits, 2);
    std::memcpy(brain.own.data() + 2 * i, &bits, 2);
  }
  compare<cuda::F16, cuda::F32>(half, DType::F32, "f16 to f32");
  compare<cuda::F16, cuda::BF16>(half, DType::BF16, "f16 to bf16");
  compare<cuda::BF16, cuda::F32>(brain, DType::F32, "bf16 to f32");
  compare<cuda::BF16, cuda::F16>(brain, DType::F16, "bf16 to f16");
}
