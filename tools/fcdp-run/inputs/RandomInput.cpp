// SPDX-License-Identifier: Apache-2.0
//
// Generates inputs, the same in every run.
#include "inputs/InputSource.h"
#include "inputs/SplitMix.h"
#include "policy/IntegerAccess.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cmath>
#include <numbers>
#include <stdexcept>

namespace fcdp::run {

namespace {

/// Random numbers of one row.
class RandomStream {
public:
  explicit RandomStream(uint64_t seed) : mix(seed) {}
  uint64_t next() { return mix.next(); }
  /// Returns a random number in (0, 1].
  double uniform() { return (double(next() >> 11) + 1) * 0x1p-53; }
  /// Uses the method of Box and Muller; the second of its two values is not
  /// used.
  double normal() {
    double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
  uint64_t below(uint64_t limit) {
    return uint64_t((unsigned __int128)(next()) * limit >> 64);
  }

private:
  SplitMix mix;
};

/// Returns the FNV-1a hash.
uint64_t hashOf(const std::string &text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char c : text)
    hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

template <typename T>
void storeAs(std::span<std::byte> out, int64_t position, T value) {
  std::memcpy(out.data() + position * sizeof(T), &value, sizeof(T));
}

/// Returns the type of a complex number's real part; other types are their own.
DType partOf(DType type) {
  return type == DType::C64    ? DType::F32
         : type == DType::C128 ? DType::F64
                               : type;
}

void storeFloat(std::span<std::byte> out, int64_t i, DType type, double value) {
  switch (type) {
  case DType::F16:
    return storeAs(out, i, c10::Half(float(value)));
  case DType::BF16:
    return storeAs(out, i, c10::BFloat16(float(value)));
  case DType::F64:
    return storeAs(out, i, value);
  default:
    return storeAs(out, i, float(value));
  }
}

class RandomInput final : public InputSource {
public:
  RandomInput(uint64_t seed, std::optional<int64_t> limit,
              const plan::InputT &input)
      : seed(seed), limit(limit.value_or(input.indexLimit.value_or(0))),
        input(input) {
    if (!isInteger(toDType(input.dtype)))
      return;
    if (this->limit < 1)
      fail("an integer input without a known limit needs random:SEED:LIMIT, "
           "with a LIMIT of at least 1");
    if (input.indexLimit && this->limit > *input.indexLimit)
      fail("expected a limit of at most " + std::to_string(*input.indexLimit) +
           ", got " + std::to_string(this->limit));
    if (!fits(this->limit - 1, toDType(input.dtype)))
      fail("the limit " + std::to_string(this->limit) + " does not fit in " +
           name(toDType(input.dtype)));
  }

  std::optional<int64_t> rows() const override { return std::nullopt; }
  bool isWindowed() const override { return false; }
  const Shape &rowShape() const override { return input.shape; }
  void checkValues() const override {}

  void read(int64_t row, std::span<std::byte> out) const override {
    RandomStream random(SplitMix(seed ^ hashOf(input.name)).next() ^
                        uint64_t(row));
    int64_t elements = numElements(input.shape);
    for (int64_t i = 0; i < elements; ++i) {
      if (isInteger(toDType(input.dtype)))
        storeInteger(out.data(), i, toDType(input.dtype), random.below(limit));
      else if (toDType(input.dtype) == DType::Bool)
        storeAs(out, i, uint8_t(random.next() >> 63));
      else if (DType part = partOf(toDType(input.dtype));
               part != toDType(input.dtype))
        for (int64_t j : {2 * i, 2 * i + 1})
          storeFloat(out, j, part, random.normal());
      else
        storeFloat(out, i, part, random.normal());
    }
  }

private:
  [[noreturn]] void fail(const std::string &message) const {
    throw std::runtime_error(describe("random", input) + message);
  }

  uint64_t seed;
  int64_t limit;
  const plan::InputT &input;
};

} // namespace

std::unique_ptr<InputSource> makeRandom(uint64_t seed,
                                        std::optional<int64_t> limit,
                                        const plan::InputT &input) {
  return std::make_unique<RandomInput>(seed, limit, input);
}

} // namespace fcdp::run
