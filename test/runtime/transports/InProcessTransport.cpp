// SPDX-License-Identifier: Apache-2.0

#include "transports/InProcessTransport.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace fcdp {

/// Senders post parcels in lanes and wait until they are taken. Receivers copy
/// under the group's lock. Thread-safety is as `Transport` documents it.
class InProcessTransport final : public Transport {
public:
  InProcessTransport(InProcessGroup &group, uint32_t rank)
      : Transport(group.worldRanks, rank), group(group) {}

  void abort() noexcept override {
    std::lock_guard<std::mutex> lock(group.mutex);
    aborted = true;
    group.changed.notify_all();
  }

protected:
  void doExchange(std::span<const Send> sends, std::span<const Recv> recvs,
                  const char *what, uint32_t channel) override;

private:
  using Lock = std::unique_lock<std::mutex>;
  using Time = std::chrono::steady_clock::time_point;

  template <typename Done>
  void wait(Lock &lock, Time deadline, Done done, const char *what,
            const char *doing, size_t bytes, uint32_t peer);
  void take(Lock &lock, Time deadline, const Recv &recv, const char *what,
            uint32_t channel);

  InProcessGroup &group;
  bool aborted = false; // guarded by the group's mutex
};

template <typename Done>
void InProcessTransport::wait(Lock &lock, Time deadline, Done done,
                              const char *what, const char *doing, size_t bytes,
                              uint32_t peer) {
  for (;;) {
    // A hung rank does nothing, even if its transfer could complete.
    if (!group.hung[rank()] && done())
      return;
    if (aborted)
      fail(what, doing, bytes, peer, "aborted");
    if (group.dead[rank()] || group.dead[peer])
      fail(what, doing, bytes, peer, "connection closed by peer");
    if (group.changed.wait_until(lock, deadline) == std::cv_status::timeout)
      fail(what, doing, bytes, peer,
           "timed out after " + std::to_string(group.timeoutSeconds) + " s",
           FailureKind::TimedOut);
  }
}

void InProcessTransport::take(Lock &lock, Time deadline, const Recv &recv,
                              const char *what, uint32_t channel) {
  auto &lane = group.lanes[{recv.peer, rank(), channel}];
  wait(
      lock, deadline, [&] { return !lane.empty(); }, what, "receiving",
      recv.bytes, recv.peer);
  InProcessGroup::Parcel *parcel = lane.front();
  if (parcel->send->bytes > recv.bytes)
    fail(what, "receiving", recv.bytes, recv.peer,
         "the peer sends " + std::to_string(parcel->send->bytes) + " bytes");
  std::memcpy(recv.data, parcel->send->data, parcel->send->bytes);
  parcel->taken = true;
  lane.pop_front();
  group.changed.notify_all();
}

void InProcessTransport::doExchange(std::span<const Send> sends,
                                    std::span<const Recv> recvs,
                                    const char *what, uint32_t channel) {
  Time deadline =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(group.timeoutSeconds));
  // The lanes point into the vector, so it must not reallocate.
  std::vector<InProcessGroup::Parcel> parcels;
  parcels.reserve(sends.size());

  Lock lock(group.mutex);
  if (!group.hung[rank()])
    for (const Send &send : sends)
      if (send.bytes) {
        auto *parcel = &parcels.emplace_back(InProcessGroup::Parcel{&send});
        group.lanes[{rank(), send.peer, channel}].push_back(parcel);
      }
  group.changed.notify_all();
  try {
    for (const Recv &recv : recvs)
      if (recv.bytes)
        take(lock, deadline, recv, what, channel);
    for (InProcessGroup::Parcel &parcel : parcels)
      wait(
          lock, deadline, [&] { return parcel.taken; }, what, "sending",
          parcel.send->bytes, parcel.send->peer);
  } catch (...) {
    for (InProcessGroup::Parcel &parcel : parcels)
      std::erase(group.lanes[{rank(), parcel.send->peer, channel}], &parcel);
    throw;
  }
}

std::unique_ptr<Transport> InProcessGroup::join(uint32_t rank) {
  return std::make_unique<InProcessTransport>(*this, rank);
}

void InProcessGroup::kill(uint32_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  dead[rank] = true;
  changed.notify_all();
}

void InProcessGroup::hang(uint32_t rank) {
  std::lock_guard<std::mutex> lock(mutex);
  hung[rank] = true;
  changed.notify_all();
}

} // namespace fcdp
