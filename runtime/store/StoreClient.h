// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/FileDescriptor.h"
#include "store/KeyValueStore.h"
#include "store/StoreMessage.h"

#include <cstdint>
#include <mutex>

namespace fcdp {

struct StoreClientOptions {
  /// The numeric address and the port of a StoreServer.
  std::string address;
  uint16_t port = 0;
  std::string secret;
  /// The name of this process in messages ("rank 3"), and a number that no
  /// other process has. All clients of a process have the same.
  std::string member, process;
  /// Prefix of all keys.
  std::string prefix;
  double connectSeconds = 60;
  /// Seconds without an answer after which an operation fails.
  double operationSeconds = 60;
};

/// A connection to a job's store. Thread-safe, but it runs one operation at a
/// time. Time limits do not count the time in which this process was stopped.
class StoreClient final : public KeyValueStore {
public:
  /// Connects and proves that this process knows the secret. Throws StoreError.
  explicit StoreClient(const StoreClientOptions &options);

  void set(const std::string &key, const std::string &value) override;
  void post(const std::string &key, const std::string &value) override;
  void leaveWill(const std::string &key, const std::string &value) override;
  std::vector<std::optional<std::string>>
  find(const std::vector<std::string> &keys) override;
  std::vector<std::string>
  await(const std::vector<std::string> &keys, double seconds,
        const std::function<bool()> &isCancelled) override;

  /// Adds to a decimal number, which is 0 at first. Returns the sum.
  int64_t add(const std::string &key, int64_t number);
  /// Sets the value if it is `expected`, or does not exist and `expected` is
  /// empty. Returns the value, or `expected` if there is none.
  std::string compareSet(const std::string &key, const std::string &expected,
                         const std::string &value);
  /// Returns whether the key existed.
  bool remove(const std::string &key);

private:
  class Patience;

  bool tryToConnect(Patience &patience);
  void proveItself(Patience &patience);
  StoreMessage request(StoreMessageKind kind, std::vector<std::string> fields);
  void tell(StoreMessageKind kind, std::vector<std::string> fields);
  std::vector<std::string> prefixed(const std::vector<std::string> &keys) const;
  void send(const StoreMessage &message, Patience &patience);
  StoreMessage receive(Patience &patience,
                       const std::function<bool()> &isCancelled = nullptr);
  [[noreturn]] void fail(const std::string &text) const;
  [[noreturn]] void failSilent(const Patience &patience) const;

  const StoreClientOptions options;
  std::mutex mutex; ///< for the members below
  FileDescriptor socket;
  StoreMessageReader reader;
  uint32_t numRequests = 0;
  bool isBroken = false;
};

} // namespace fcdp
