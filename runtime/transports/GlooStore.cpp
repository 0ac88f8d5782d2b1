// SPDX-License-Identifier: Apache-2.0
#include "transports/GlooStore.h"
#include "store/Milliseconds.h"

namespace fcdp {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes toBytes(const std::string &text) {
  return Bytes(text.begin(), text.end());
}
std::string toText(const Bytes &bytes) {
  return std::string(bytes.begin(), bytes.end());
}

class GlooStore final : public c10d::Store {
public:
  GlooStore(std::shared_ptr<StoreClient> client,
            std::chrono::milliseconds timeout)
      : c10d::Store(timeout), client(std::move(client)) {}

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<GlooStore>(client, timeout_);
  }
  void set(const std::string &key, const Bytes &value) override {
    client->set(key, toText(value));
  }
  Bytes compareSet(const std::string &key, const Bytes &expected,
                   const Bytes &value) override {
    return toBytes(client->compareSet(key, toText(expected), toText(value)));
  }
  Bytes get(const std::string &key) override {
    return toBytes(client->get(key, seconds(timeout_)));
  }
  int64_t add(const std::string &key, int64_t value) override {
    return client->add(key, value);
  }
  bool deleteKey(const std::string &key) override {
    return client->remove(key);
  }
  bool check(const std::vector<std::string> &keys) override {
    for (const auto &value : client->find(keys))
      if (!value)
        return false;
    return true;
  }
  int64_t getNumKeys() override {
    C10_THROW_ERROR(NotImplementedError, "a job's store does not count keys");
  }
  void wait(const std::vector<std::string> &keys) override {
    wait(keys, timeout_);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override {
    client->await(keys, seconds(timeout), nullptr);
  }

private:
  static double seconds(std::chrono::milliseconds time) {
    return double(time.count()) / 1000;
  }

  const std::shared_ptr<StoreClient> client;
};

} // namespace

c10::intrusive_ptr<c10d::Store>
makeGlooStore(std::shared_ptr<StoreClient> client, double seconds) {
  return c10::make_intrusive<GlooStore>(std::move(client),
                                        toMilliseconds(seconds));
}

} // namespace fcdp
