// SPDX-License-Identifier: Apache-2.0
#include "store/StoreAddress.h"
#include "store/Secret.h"
#include "store/TcpStore.h"

#include <chrono>
#include <cmath>
#include <sstream>
#include <thread>

namespace fcdp {
namespace {

constexpr std::chrono::milliseconds kRetryTime{100};

std::string keyOf(const std::string &scope) { return scope + "/store-address"; }

std::string proofOfAddress(const std::string &secret, const std::string &scope,
                           const std::string &text) {
  return proofOf(secret, {"store-address", scope, text});
}

/// Returns the address, or none if its proof is wrong.
std::optional<StoreAddress> decodeAddress(const std::string &text,
                                          const std::string &scope,
                                          const std::string &secret) {
  const size_t line = text.find('\n');
  if (line == text.npos ||
      !isSameProof(text.substr(line + 1),
                   proofOfAddress(secret, scope, text.substr(0, line))))
    return std::nullopt;
  std::istringstream in(text.substr(0, line));
  StoreAddress found;
  in >> found.host >> found.address >> found.port;
  return in ? std::optional(found) : std::nullopt;
}

} // namespace

void publishStoreAddress(TcpStore &store, const std::string &scope,
                         const std::string &secret, const StoreAddress &own) {
  std::string text =
      own.host + " " + own.address + " " + std::to_string(own.port);
  text += "\n" + proofOfAddress(secret, scope, text);
  const std::string found = store.setOnce(keyOf(scope), text);
  if (found == text)
    return;
  if (auto other = decodeAddress(found, scope, secret))
    throw StoreError("launcher rank 0 of this job has joined already (host " +
                     other->host +
                     "); was a process started with the address and the "
                     "variables of a job that runs?");
  store.set(keyOf(scope), text);
}

StoreAddress findStoreAddress(TcpStore &store, const std::string &scope,
                              const std::string &secret, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  bool isForeign = false;
  for (;;) {
    const std::chrono::duration<double> left = end - Clock::now();
    auto text = store.get(keyOf(scope), std::max(left.count(), 0.0));
    if (text)
      if (auto found = decodeAddress(*text, scope, secret))
        return *found;
    isForeign |= text.has_value();
    if (Clock::now() >= end)
      break;
    std::this_thread::sleep_for(kRetryTime);
  }
  std::ostringstream late;
  if (isForeign)
    late << "launcher rank 0 has another secret than this one; is it another "
            "job, or does FCDP_JOB_KEY differ?";
  else
    late << "launcher rank 0 did not join within " << std::ceil(seconds)
         << " s";
  throw StoreError(late.str());
}

} // namespace fcdp
