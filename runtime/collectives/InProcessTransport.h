// SPDX-License-Identifier: Apache-2.0
//
// A transport between threads of one process, for tests and sanitizers.
#pragma once

#include "collectives/Transport.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace fcdp {

/// Where the ranks of one group meet. Thread-safe.
class InProcessGroup {
public:
  explicit InProcessGroup(std::vector<uint32_t> worldRanks,
                          double timeoutSeconds = 30)
      : worldRanks(std::move(worldRanks)), timeoutSeconds(timeoutSeconds),
        dead(this->worldRanks.size()), hung(this->worldRanks.size()) {}

  /// The group must outlive its transports.
  std::unique_ptr<Transport> join(uint32_t rank);

  /// Faults: a dead rank's peers are told at once, as by a closed connection;
  /// a hung rank's exchanges never start, so its peers run into the time-out.
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
