// SPDX-License-Identifier: Apache-2.0
//
// Codes the messages of collectives in all forms of WireCode.
#pragma once

#include "codec/MessageCodec.h"

#include <memory>

namespace fcdp {

/// Codes and decodes messages in the form that the collective says. Messages
/// are numbered by the part of the collective's larger tensor that they have.
/// One thread at a time may use it.
class WireCodec {
public:
  /// Allocates memory for Delta and Coded. Throws std::bad_alloc.
  void reserve() { lossless = std::make_unique<MessageCodec>(); }

  /// Throws std::runtime_error if memory for messages of `collective` is
  /// missing.
  void check(const Collective &collective) const;

  /// Returns the most bytes of a message of values of `valueBytes` bytes.
  size_t bytes(const Collective &collective, size_t valueBytes) const;

  /// Codes `values`, which are part `part`, into `message`, which has room for
  /// `bytes`, and returns the message's bytes.
  size_t encode(const Collective &collective, size_t part,
                std::span<const std::byte> values,
                std::span<std::byte> message);

  /// Decodes the output of `encode`. Throws CodeError if the message is
  /// damaged, or was coded in another way.
  void decode(const Collective &collective, size_t part,
              std::span<const std::byte> message, std::span<std::byte> values);

  /// Sets the state of padding to 0, after all messages.
  void clearPadding(const Collective &collective) const;

private:
  std::unique_ptr<MessageCodec> lossless;
};

} // namespace fcdp
