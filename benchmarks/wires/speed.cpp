// SPDX-License-Identifier: Apache-2.0
//
// The speed of the codes of wires on one core, in processor time, so that a
// busy machine matters little:
//   clang++ -std=c++20 -O3 -Iruntime benchmarks/wires/speed.cpp
//     runtime/codec/*.cpp runtime/core/SumKernels.cpp runtime/core/DType.cpp
//     -lzstd -o speed && ./speed

#include "codec/MessageCodec.h"
#include "codec/Quantizer.h"
#include "core/SumKernels.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

using namespace fcdp;

static double processorSeconds() { return double(clock()) / CLOCKS_PER_SEC; }

/// Returns the least seconds of several calls.
template <typename Call>
static double measure(Call call) {
  double least = 1e9;
  for (int i = 0; i < 7; ++i) {
    double begin = processorSeconds();
    call();
    least = std::min(least, processorSeconds() - begin);
  }
  return least;
}

static constexpr size_t kCount = 1 << 22;

static std::vector<std::byte> toType(const std::vector<float> &values,
                                     DType type) {
  std::vector<std::byte> bytes(values.size() * byteSize(type));
  convertElements(bytes.data(), type,
                  reinterpret_cast<const std::byte *>(values.data()),
                  DType::F32, values.size());
  return bytes;
}

static void measureQuantizer(const std::vector<float> &values, DType type,
                             WireCode code) {
  Quantization quantization{code, type};
  std::vector<std::byte> in = toType(values, type), out(in.size());
  std::vector<std::byte> message(quantizedBytes(formatOf(code), kCount));
  std::vector<float> residual(kCount);
  double encode =
      measure([&] { quantize(quantization, in, residual, message); });
  double decode = measure([&] { dequantize(quantization, message, out); });
  std::printf("%s in %llu bits: quantise %.2e, dequantise %.2e bytes of "
              "values a second\n",
              name(type), (unsigned long long)formatOf(code).bits,
              double(in.size()) / encode, double(in.size()) / decode);
}

/// `rate` is how much values change from their references.
static void measureCodec(const std::vector<float> &references, WireCode wire,
                         float rate) {
  std::mt19937 generator(2);
  std::normal_distribution<float> normal;
  std::vector<float> values = references;
  for (float &value : values)
    value += rate * normal(generator);
  std::vector<std::byte> in = toType(values, DType::BF16), out(in.size());
  std::vector<std::byte> before = toType(references, DType::BF16);
  std::vector<std::byte> message(codedCapacity(in.size()));
  MessageCodec codec;
  MessageCoding coding{wire, DType::BF16, /*generation=*/1};
  size_t size = 0;
  double encode =
      measure([&] { size = codec.encode(coding, in, before.data(), message); });
  double decode =
      measure([&] { codec.decode(coding, message, before.data(), out); });
  std::printf("bf16 in %.2f bits (%s): code %.2e, decode %.2e bytes of values "
              "a second\n",
              8.0 * double(size) / kCount,
              wire == WireCode::Delta ? "delta" : "coded",
              double(in.size()) / encode, double(in.size()) / decode);
}

int main() {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(kCount);
  for (float &value : values)
    value = 0.02f * normal(generator);
  for (DType type : {DType::F32, DType::BF16})
    for (WireCode code : {WireCode::Int8, WireCode::Int4})
      measureQuantizer(values, type, code);
  for (float rate : {1e-5f, 5e-5f, 2e-4f})
    measureCodec(values, WireCode::Delta, rate);
  measureCodec(values, WireCode::Coded, 0);
}
