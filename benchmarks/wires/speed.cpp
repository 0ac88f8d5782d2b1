// SPDX-License-Identifier: Apache-2.0
//
// The speed of quantisation on one core, in processor time, so that a busy
// machine matters little:
//   clang++ -std=c++20 -O3 -Iruntime benchmarks/wires/speed.cpp
//     runtime/codec/Quantizer.cpp runtime/core/SumKernels.cpp
//     runtime/core/DType.cpp -o speed && ./speed

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

int main() {
  constexpr size_t count = 1 << 22;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count), residual(count);
  for (float &value : values)
    value = normal(generator);
  for (DType type : {DType::F32, DType::BF16})
    for (WireCode code : {WireCode::Int8, WireCode::Int4}) {
      Quantization quantization{code, type};
      size_t bytes = count * byteSize(type);
      std::vector<std::byte> in(bytes), out(bytes);
      std::vector<std::byte> message(quantizedBytes(formatOf(code), count));
      convertElements(in.data(), type,
                      reinterpret_cast<const std::byte *>(values.data()),
                      DType::F32, count);
      double encode =
          measure([&] { quantize(quantization, in, residual, message); });
      double decode = measure([&] { dequantize(quantization, message, out); });
      std::printf("%s in %llu bits: quantise %.2e, dequantise %.2e bytes of "
                  "values a second\n",
                  name(type), (unsigned long long)formatOf(code).bits,
                  double(bytes) / encode, double(bytes) / decode);
    }
}
