// SPDX-License-Identifier: Apache-2.0
//
// Tests kernels and streams on a GPU, if there is one, and over the fakes.

#include "OnGpuOrFake.h"
#include "Rounding.h"
#include "core/PackedBlocks.h"
#include "core/SumKernels.h"
#include "cuda/KernelImage.h"
#include "cuda/MessageKernels.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace fcdp;

namespace {

/// No multiple of the elements that kernels load at once.
constexpr uint64_t elements = 70001;

/// Returns random bits, whose sums depend on the order.
std::vector<std::byte> randomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte &byte : bytes)
    byte = std::byte(random());
  return bytes;
}

bool isNan(const std::byte *at, DType type) {
  std::vector<std::byte> wide(sizeof(double));
  const std::byte *const sources[] = {at};
  sumChunks(wide.data(), DType::F64, sources, type, 1);
  double value;
  std::memcpy(&value, wide.data(), sizeof(value));
  return std::isnan(value);
}

class Kernels : public OnGpuOrFake {
protected:
  Kernels() : OnGpuOrFake(16 << 20, 16 << 20) {}

  void compareSums(const KernelImage &kernels, DType inType, DType outType,
                   uint64_t elements);

  void compareRounding(const MessageKernels &kernels, WireCode code, DType type,
                       uint64_t elements);

  void upload(size_t at, const std::vector<std::byte> &bytes) {
    std::memcpy(backend->hostBase(), bytes.data(), bytes.size());
    backend->copy(StreamId::H2D, backend->deviceBase() + at,
                  backend->hostBase(), bytes.size());
    backend->synchronize();
  }
  std::vector<std::byte> download(size_t at, size_t bytes) {
    backend->synchronize();
    backend->copy(StreamId::D2H, backend->hostBase(),
                  backend->deviceBase() + at, bytes);
    backend->synchronize();
    EXPECT_FALSE(backend->failed()) << backend->failure();
    return {backend->hostBase(), backend->hostBase() + bytes};
  }
};

/// Compares the sums of 3 x 2 ranks' chunks of `elements` with the CPU's.
void Kernels::compareSums(const KernelImage &kernels, DType inType,
                          DType outType, uint64_t elements) {
  const uint32_t nodes = 3, locals = 2, ranks = nodes * locals, rank = 4;
  const size_t chunk = elements * byteSize(inType);
  const size_t outBytes = elements * byteSize(outType);
  const size_t own = 0, out = 1 << 20, scratch = 2 << 20;
  std::vector<std::byte> ownBytes = randomBytes(chunk, 1),
                         others = randomBytes(ranks * chunk, 2);
  upload(own, ownBytes);
  upload(scratch, others);
  std::byte *base = backend->deviceBase();
  kernels.sumChunks(
      {base + own, base + scratch, base + out, elements, rank, nodes, locals},
      inType, outType, backend->stream(StreamId::Inter));
  std::vector<std::byte> got = download(out, outBytes), want(outBytes);
  std::vector<const std::byte *> chunks;
  for (uint32_t node = 0; node < nodes; ++node)
    for (uint32_t local = 0; local < locals; ++local) {
      uint32_t from = local * nodes + node;
      chunks.push_back(from == rank ? ownBytes.data()
                                    : others.data() + from * chunk);
    }
  sumGroups(want.data(), outType, chunks, locals, inType, elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const size_t at = i * byteSize(outType);
    bool isSame = std::memcmp(&got[at], &want[at], byteSize(outType)) == 0 ||
                  (isNan(&got[at], outType) && isNan(&want[at], outType));
    ASSERT_TRUE(isSame) << name(inType) << " to " << name(outType) << ", "
                        << elements << " elements: element " << i;
  }
}

TEST_P(Kernels, SumsHaveTheBitsOfTheCpu) {
  KernelImage kernels(cuda);
  const DType types[] = {DType::F16, DType::BF16, DType::F32, DType::F64};
  // Chunks of the first number begin at multiples of a vector, the others not.
  for (uint64_t number : {uint64_t(70400), elements})
    for (DType inType : types)
      for (DType outType : types)
        compareSums(kernels, inType, outType, number);
}

/// Rounds gradients, with the residual in host memory, and sums the messages.
void Kernels::compareRounding(const MessageKernels &kernels, WireCode code,
                              DType type, uint64_t elements) {
  Rounding given(code, type, elements), want = given;
  want.quantizeOnCpu();
  const size_t messages = 4 << 20, out = 8 << 20;
  upload(0, given.values);
  std::byte *base = backend->deviceBase();
  auto *residual = reinterpret_cast<float *>(backend->hostBase() + (8 << 20));
  std::ranges::copy(given.residual, residual);
  cudaStream_t stream = backend->stream(StreamId::Inter);
  auto *sent = reinterpret_cast<uint8_t *>(base + messages);
  kernels.quantize({base, residual, sent, given.messageBytes, elements,
                    kRoundingRank, kRoundingRanks},
                   code, type, stream);
  const std::byte *own = base + kRoundingRank * given.partBytes;
  kernels.sum({own, sent, given.messageBytes, base + out, elements,
               kRoundingRank, kRoundingRanks},
              code, type, DType::F32, stream);
  std::vector<std::byte> sum = download(out, elements * sizeof(float)),
                         wantSum = want.sumOnCpu(DType::F32);
  EXPECT_TRUE(std::ranges::equal(std::span(residual, want.residual.size()),
                                 want.residual));
  for (uint64_t i = 0; i < elements; ++i) {
    const size_t at = i * sizeof(float);
    bool isSame =
        std::memcmp(&sum[at], &wantSum[at], sizeof(float)) == 0 ||
        (isNan(&sum[at], DType::F32) && isNan(&wantSum[at], DType::F32));
    ASSERT_TRUE(isSame) << name(type) << ", element " << i << " of "
                        << elements;
  }
  kernels.clear(residual, 100, stream);
  backend->synchronize();
  EXPECT_EQ(std::count(residual, residual + 100, 0.0f), 100);
}

TEST_P(Kernels, RoundAsTheCpuDoes) {
  KernelImage image(cuda);
  MessageKernels kernels(image);
  for (WireCode code : {WireCode::Int8, WireCode::Int4})
    for (DType type : {DType::F16, DType::BF16, DType::F32})
      for (uint64_t number : {uint64_t(65536), elements})
        compareRounding(kernels, code, type, number);
}

TEST_P(Kernels, UnpackAsTheCpuDoes) {
  KernelImage kernels(cuda);
  // The last block of the first is not full, and rows of the second are odd.
  for (const PackedLayout &layout :
       {PackedLayout::ofNf4(70003), PackedLayout::ofInt8(301, 201)})
    for (DType type : {DType::F16, DType::BF16, DType::F32}) {
      std::vector<std::byte> packed =
          randomBytes(size_t(layout.countBytes()), 7);
      // Any bits are codes. Scales are numbers, also a denormal.
      for (int64_t block = 0; block < layout.countBlocks(); ++block) {
        const float scale =
            std::ldexp(1.0F + float(block % 7) / 9, block % 5 ? -6 : -130);
        std::memcpy(&packed[size_t(block * layout.blockBytes())], &scale,
                    sizeof(scale));
      }
      const size_t bytes = size_t(layout.values) * byteSize(type);
      std::vector<std::byte> want(bytes);
      unpackBlocks(layout, packed.data(), 0, layout.countBlocks(), type,
                   want.data());
      const size_t out = 1 << 20;
      upload(0, packed);
      std::byte *base = backend->deviceBase();
      kernels.unpack(layout, base, type, base + out,
                     backend->stream(StreamId::Compute));
      EXPECT_EQ(download(out, bytes), want)
          << layout.codeBits << " bits to " << name(type);
    }
}

TEST_P(Kernels, AddsInPlace) {
  std::vector<float> sum(elements), part(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    sum[i] = float(i) * 0.37f;
    part[i] = 1.0f / float(i + 1);
  }
  auto bytesOf = [](const std::vector<float> &values) {
    auto *first = reinterpret_cast<const std::byte *>(values.data());
    return std::vector<std::byte>(first, first + values.size() * sizeof(float));
  };
  upload(0, bytesOf(sum));
  upload(1 << 20, bytesOf(part));
  backend->add(
      StreamId::Compute, reinterpret_cast<float *>(backend->deviceBase()),
      reinterpret_cast<float *>(backend->deviceBase() + (1 << 20)), elements);
  std::vector<std::byte> got = download(0, elements * sizeof(float));
  for (uint64_t i = 0; i < elements; ++i)
    sum[i] += part[i];
  EXPECT_EQ(got, bytesOf(sum));
}

// The same as in the conformance suite, which needs one device per rank.
TEST_P(Kernels, EventsOrderTheStreams) {
  const size_t bytes = 64 << 10;
  std::vector<std::byte> first = randomBytes(bytes, 3);
  upload(0, first);
  StreamId last = StreamId::H2D;
  size_t at = 0;
  for (size_t i = 0; i < 20 * kNumStreams; ++i) {
    StreamId stream = StreamId((i * 5) % kNumStreams);
    backend->record(1, last);
    backend->wait(1, stream);
    backend->copy(stream, backend->deviceBase() + at + bytes,
                  backend->deviceBase() + at, bytes);
    at += bytes;
    last = stream;
  }
  EXPECT_EQ(download(at, bytes), first);
}

} // namespace

FCDP_INSTANTIATE_ON_GPU_OR_FAKE(Kernels);
