// SPDX-License-Identifier: Apache-2.0
//
// A transport between threads of one process, for tests and sanitizers.
#pragma once

#include "transports/Transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace fcdp {

/// A group that the ranks' transports share. Thread-safe.
class InProcessGroup {
public:
  explicit InProcessGroup(std::vector<uint32_t> worldRanks,
                          double timeoutSeconds = 30)
      : worldRanks(std::move(worldRanks)), timeoutSeconds(timeoutSeconds),
        dead(this->worldRanks.size()), hung(this->worldRanks.size()) {}

  /// Returns the transport of a rank. The group must outlive it.
  std::unique_ptr<Transport> join(uint32_t rank);

  /// Inject faults. The peers of a killed rank fail at once, as after a closed
  /// connection. The exchanges of a hung rank never start, so its peers time
  /// out.
  void kill(uint32_t rank);
  void hang(uint32_t rank);

private:
  friend class InProcessTransport;

  struct Parcel {
    const Send *send;
    bool taken = false;
  };
  using Lane = std::tuple<uint32_t, uint32_t, uint32_t>; // from, to, channel

  const std::vector<uint32_t> worldRanks;
  const double timeoutSeconds;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<Lane, std::deque<Parcel *>> lanes;
  std::vector<bool> dead, hung;
};

} // namespace fcdp
