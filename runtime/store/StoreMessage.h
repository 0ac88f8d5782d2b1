// SPDX-License-Identifier: Apache-2.0
//
// The messages between the server of a job's store and its clients. A message
// has its length (32 bits, without itself), its kind (8 bits), a number (32
// bits) by which an answer names its request, and fields, each preceded by its
// length (32 bits). Numbers are little-endian.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fcdp {

enum class StoreMessageKind : uint8_t {
  /// The server's first message: its name and a challenge.
  Greeting = 1,
  /// The client's answer: a challenge, its identity (its place in the job, and
  /// a number of the process), and its proof.
  Hello,
  /// The server's proof.
  Welcome,
  /// The reason why the server refuses this client.
  Refusal,
  /// Key and value. Only Set is answered, Post and Will are not.
  Set,
  Post,
  Will,
  /// Keys; the answer has two fields for each, "1" or "" and the value.
  Find,
  /// Keys; the answer has the values, when all exist.
  Await,
  /// Key and number; the answer has the sum.
  Add,
  /// Key, expected value, new value; the answer has the resulting value.
  CompareSet,
  /// Key; the answer has "1" or "".
  Remove,
  Answer
};

struct StoreMessage {
  StoreMessageKind kind = StoreMessageKind::Answer;
  uint32_t number = 0;
  std::vector<std::string> fields;
};

inline constexpr const char *kStoreName = "fcdp-store/1";
/// The longest messages, in bytes, before and after the client has proved
/// itself.
inline constexpr size_t kMostUnproved = 4096, kMostProved = size_t(1) << 28;

std::string encode(const StoreMessage &message);

/// Splits a stream of bytes into messages. Not thread-safe.
class StoreMessageReader {
public:
  void add(const char *bytes, size_t count) { buffer.append(bytes, count); }
  /// Returns the next message, or none if it is not complete. Throws
  /// std::runtime_error unless it is a valid message of at most `most` bytes.
  std::optional<StoreMessage> next(size_t most);

private:
  std::string buffer;
  size_t used = 0;
};

/// Return the proofs of the two ends of a connection.
std::string clientProof(const std::string &secret,
                        const std::string &serversChallenge,
                        const std::string &clientsChallenge,
                        const std::string &member, const std::string &process);
std::string serverProof(const std::string &secret,
                        const std::string &serversChallenge,
                        const std::string &clientsChallenge);

} // namespace fcdp
