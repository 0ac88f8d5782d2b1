// SPDX-License-Identifier: Apache-2.0

#include "transports/GlooTransport.h"
#include "store/Milliseconds.h"
#include "store/TcpStore.h"
#include "transports/GroupProof.h"

#include <ATen/ops/from_blob.h>
#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace fcdp {
namespace {

using Group = c10d::ProcessGroupGloo;
using Work = c10::intrusive_ptr<c10d::Work>;

/// Returns Gloo's text without the path of its build folder and without its
/// advice, which blames a crash in every case.
std::string glooTextOf(const std::exception &error) {
  std::string text = textOf(error);
  if (size_t advice = text.find(" This is typically caused");
      advice != std::string::npos)
    text.resize(advice);
  size_t folder = text.rfind("/transport/");
  if (text.rfind("[/", 0) == 0 && folder != std::string::npos)
    text.replace(0, folder, "[gloo");
  return text;
}

/// Returns at least a millisecond, because Gloo treats less as no limit.
std::chrono::milliseconds timeUntil(std::chrono::steady_clock::time_point end) {
  using std::chrono::milliseconds;
  return std::max(milliseconds(1), std::chrono::ceil<milliseconds>(
                                       end - std::chrono::steady_clock::now()));
}

/// For thread-safety, see `Transport`.
class GlooTransport final : public Transport {
public:
  GlooTransport(const GlooDevice &device, const GlooGroupOptions &options);
  void abort() noexcept override;

protected:
  void doExchange(std::span<const Send> sends, std::span<const Recv> recvs,
                  const char *what, uint32_t channel) override;

private:
  /// A posted transfer, with the text for its failure.
  struct Pending {
    Work work;
    const char *doing;
    size_t bytes;
    uint32_t peer;
  };
  struct Exchange;

  void connect(const GlooDevice &device, const GlooGroupOptions &options);
  /// Throws TransportError unless all peers know the secret.
  void prove(const GlooGroupOptions &options);

  template <typename Post>
  void post(Exchange &exchange, const char *doing, size_t bytes, uint32_t peer,
            const std::byte *data, Post send);

  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<Group> group;

  std::mutex mutex; ///< for posting and for the members below
  bool aborted = false;
  std::vector<Exchange *> running;
};

/// The transfers of one call. No transfer outlives the call, even after an
/// error, because its memory may be reused right after.
struct GlooTransport::Exchange {
  Exchange(GlooTransport &transport, const char *what, size_t count)
      : transport(transport), what(what) {
    pending.reserve(count);
    std::lock_guard<std::mutex> lock(transport.mutex);
    transport.running.push_back(this);
  }
  ~Exchange() {
    std::lock_guard<std::mutex> lock(transport.mutex);
    std::erase(transport.running, this);
  }

  GlooTransport &transport;
  const char *what;
  std::vector<Pending> pending;
};

GlooTransport::GlooTransport(const GlooDevice &device,
                             const GlooGroupOptions &options)
    : Transport(options.worldRanks, options.rank),
      timeout(toMilliseconds(options.joinSeconds)) {
  try {
    connect(device, options);
    prove(options);
  } catch (const std::exception &error) {
    std::string ranks;
    for (uint32_t rank : options.worldRanks)
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    throw TransportError("rank " + std::to_string(worldRank(rank())) +
                         " cannot connect group '" + options.name +
                         "' of ranks " + ranks + ": " + textOf(error));
  }
  timeout = toMilliseconds(options.collectiveSeconds);
  group->setTimeout(timeout);
}

void GlooTransport::connect(const GlooDevice &device,
                            const GlooGroupOptions &options) {
  auto gloo = Group::Options::create(toMilliseconds(options.joinSeconds));
  gloo->devices = {device};
  gloo->threads = 1; // point-to-point transfers use the device's thread
  auto store =
      c10::make_intrusive<c10d::PrefixStore>(options.name, options.store);
  group =
      c10::make_intrusive<Group>(store, int(options.rank), int(size()), gloo);
}

void GlooTransport::prove(const GlooGroupOptions &options) {
  constexpr const char *what = "proof of belonging to the job";
  constexpr const char *hint =
      "has a process that does not belong to the job taken its place?";
  uint32_t wrong;
  try {
    wrong = proveToPeers(
        {options.secret, options.name, rank(), size()},
        // These bytes do not count as sent by the job.
        [&](std::span<const Send> sends, std::span<const Recv> recvs) {
          doExchange(sends, recvs, what, 0);
        });
  } catch (const TransportError &error) {
    throw TransportError(std::string(error.what()) + "; " + hint, error.kind());
  }
  if (wrong != size())
    throw TransportError("rank " + std::to_string(worldRank(wrong)) +
                         " does not have the job's secret; " + hint);
}

template <typename Post>
void GlooTransport::post(Exchange &exchange, const char *doing, size_t bytes,
                         uint32_t peer, const std::byte *data, Post send) {
  if (bytes == 0)
    return;
  try {
    std::vector<at::Tensor> tensor{
        at::from_blob(const_cast<std::byte *>(data), {int64_t(bytes)},
                      at::TensorOptions().dtype(at::kByte))};
    // The group numbers its transfers without a lock of its own.
    std::lock_guard<std::mutex> lock(mutex);
    if (aborted)
      throw std::runtime_error("aborted after another failure");
    exchange.pending.push_back({send(tensor), doing, bytes, peer});
  } catch (const std::exception &error) {
    fail(exchange.what, doing, bytes, peer, glooTextOf(error));
  }
}

void GlooTransport::doExchange(std::span<const Send> sends,
                               std::span<const Recv> recvs, const char *what,
                               uint32_t channel) {
  Exchange exchange(*this, what, sends.size() + recvs.size());
  const int tag = int(channel);
  // Post the receives first. Receives that are posted after the sends leave one
  // direction of the link idle (measured: 0.66 s instead of 0.33 s for 8 MB
  // each way).
  for (const Recv &recv : recvs)
    post(exchange, "receiving", recv.bytes, recv.peer, recv.data,
         [&](std::vector<at::Tensor> &tensor) {
           return group->recv(tensor, int(recv.peer), tag);
         });
  for (const Send &send : sends)
    post(exchange, "sending", send.bytes, send.peer, send.data,
         [&](std::vector<at::Tensor> &tensor) {
           return group->send(tensor, int(send.peer), tag);
         });
  // The limit is for all transfers together, which run at the same time.
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + timeout;
  for (Pending &transfer : exchange.pending) {
    std::string text;
    auto kind = FailureKind::Other;
    try {
      if (transfer.work->wait(timeUntil(end)))
        continue;
      text = "aborted after another failure"; // the only case in which Gloo
                                              // returns false
    } catch (const std::exception &error) {
      text = glooTextOf(error);
      // Gloo throws one type for all errors.
      if (Clock::now() >= end)
        kind = FailureKind::TimedOut;
    }
    fail(what, transfer.doing, transfer.bytes, transfer.peer, text, kind);
  }
}

void GlooTransport::abort() noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  aborted = true;
  for (Exchange *exchange : running)
    for (Pending &transfer : exchange->pending)
      try {
        transfer.work->abort();
      } catch (const std::exception &) {
        // The transfer has ended already.
      }
}

} // namespace

GlooDevice makeGlooDevice(const std::string &interface,
                          const std::string &address) {
  try {
    return interface.empty() ? Group::createDeviceForHostname(address)
                             : Group::createDeviceForInterface(interface);
  } catch (const std::exception &error) {
    throw std::runtime_error((interface.empty()
                                  ? "cannot listen on address " + address
                                  : "cannot listen on interface " + interface) +
                             ": " + textOf(error));
  }
}

std::unique_ptr<Transport> makeGlooTransport(const GlooDevice &device,
                                             const GlooGroupOptions &options) {
  if (options.worldRanks.size() == 1)
    return std::make_unique<SingleTransport>(options.worldRanks[0]);
  return std::make_unique<GlooTransport>(device, options);
}

} // namespace fcdp
