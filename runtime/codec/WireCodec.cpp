// SPDX-License-Identifier: Apache-2.0

#include "codec/WireCodec.h"

#include "codec/Quantizer.h"

#include <algorithm>
#include <string>

namespace fcdp {
namespace {

MessageCoding codingOf(const Collective &collective) {
  return {collective.message.code, collective.inType,
          collective.message.generation};
}

/// Returns the values that the part was gathered with before, or null.
const std::byte *referenceOf(const Collective &collective, size_t part,
                             size_t bytes) {
  return collective.message.reference
             ? collective.message.reference + part * bytes
             : nullptr;
}

} // namespace

void WireCodec::check(const Collective &collective) const {
  bool isReady = collective.message.isRounded()
                     ? collective.message.memory && collective.message.residual
                     : collective.message.memory && lossless;
  if (!isReady)
    throw std::runtime_error(std::string(collective.what) +
                             ": the backend was given no memory for " +
                             (collective.message.isRounded()
                                  ? "quantised values"
                                  : "coded messages"));
}

size_t WireCodec::bytes(const Collective &collective, size_t valueBytes) const {
  return collective.message.isRounded()
             ? quantizedBytes(formatOf(collective.message.code),
                              valueBytes / byteSize(collective.inType))
             : codedCapacity(valueBytes);
}

size_t WireCodec::encode(const Collective &collective, size_t part,
                         std::span<const std::byte> values,
                         std::span<std::byte> message) {
  if (!collective.message.isRounded())
    return lossless->encode(codingOf(collective), values,
                            referenceOf(collective, part, values.size()),
                            message);
  const size_t count = values.size() / byteSize(collective.inType);
  quantize({collective.message.code, collective.inType}, values,
           {collective.message.residual + part * count, count}, message);
  return message.size();
}

void WireCodec::decode(const Collective &collective, size_t part,
                       std::span<const std::byte> message,
                       std::span<std::byte> values) {
  if (collective.message.isRounded())
    dequantize({collective.message.code, collective.inType}, message, values);
  else
    lossless->decode(codingOf(collective), message,
                     referenceOf(collective, part, values.size()), values);
}

void WireCodec::clearPadding(const Collective &collective) const {
  if (collective.message.isRounded())
    for (const PaddingRange &padding :
         std::span(collective.message.padding, collective.message.numPaddings))
      std::fill_n(collective.message.residual + padding.first, padding.elements,
                  0.0f);
}

} // namespace fcdp
