// SPDX-License-Identifier: Apache-2.0
#include "probe/ProbeMessages.h"

#include "codec/MessageCodec.h"

#include <cmath>
#include <random>
#include <vector>

namespace fcdp::probe {

/// The scatter that a description has at least.
static constexpr double kLeastScatter = 0.05;

ProbedRate rateOfMessages(const SteadyTimer &time) {
  // These are parameters after a step at a usual learning rate: most have moved
  // by one or two of the steps of bf16, about 2 bits of entropy.
  constexpr size_t count = 1 << 20;
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 1);
  std::vector<uint16_t> before(count, 0x3f80), values(count);
  for (uint16_t &value : values)
    value = uint16_t(0x3f80 + std::lround(normal(random)));
  std::span bytes = std::as_bytes(std::span(values));
  const auto *references = reinterpret_cast<const std::byte *>(before.data());
  std::vector<std::byte> message(codedCapacity(bytes.size()));
  std::vector<std::byte> decoded(bytes.size());
  MessageCodec codec;
  const MessageCoding coding{WireCode::Delta, DType::BF16, 1};
  const SteadyTime both = time([&] {
    codec.encode(coding, bytes, references, message);
    codec.decode(coding, message, references, decoded);
  });
  return {"codec", 2 * double(bytes.size()) / both.seconds, both.scatter,
          kLeastScatter};
}

} // namespace fcdp::probe
