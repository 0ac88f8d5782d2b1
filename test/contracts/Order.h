// SPDX-License-Identifier: Apache-2.0
//
// The rule of order: all ranks of a communicator call the same collectives in
// the same order, each send meets a receive of its size, and a call on a
// communicator that does not block ends before the next one.
//
// Each rank writes its calls into files of a folder that the ranks share, and
// compares each call with those of the ranks that have made theirs. So the last
// rank to call finds the difference, before the call can hang.
#pragma once

#include "Report.h"

#include <map>
#include <memory>
#include <vector>

namespace fcdp::contracts {

/// One call, as the file has it.
struct CollectiveCall {
  enum Kind : uint32_t {
    AllGather,
    ReduceScatter,
    AllReduce,
    Broadcast,
    Message,
    End
  };
  uint32_t kind = End, type = 0;
  uint64_t count = 0;
  /// The root or the operation of a reduction.
  uint64_t parameter = 0;

  bool operator==(const CollectiveCall &) const = default;
};

std::string describe(const CollectiveCall &call);

/// The communicators of a process. Without a folder only the ends of calls are
/// checked. Thread-compatible.
class Order {
public:
  Order(Report report, std::string folder)
      : report(std::move(report)), folder(std::move(folder)) {}

  void joined(Handle communicator, const std::string &id, int ranks, int rank);
  /// The communicator ends in good order, after its last collective.
  void ended(Handle communicator);
  void forget(Handle communicator) { communicators.erase(communicator); }
  /// Returns 1 for a communicator whose beginning was not seen.
  uint64_t ranksOf(Handle communicator) const;

  void called(Handle communicator, const CollectiveCall &call);
  void sent(Handle communicator, int peer, uint64_t count, uint32_t type);
  void received(Handle communicator, int peer, uint64_t count, uint32_t type);

  /// `inProgress`: a call has returned while its work was not in the stream
  /// yet. `settled`: the library has reported that all work is.
  void inProgress(Handle communicator, Handle stream);
  void settled(Handle communicator);
  /// Check that nothing is in progress on the communicator, or the stream.
  void requireSettled(Handle communicator);
  void requireSettledOn(Handle stream);

private:
  /// A file to which calls are appended, or from which a peer's are read.
  class File;
  struct Sequence {
    std::shared_ptr<File> own;
    std::vector<std::shared_ptr<File>> others;
    uint64_t numCalls = 0;
  };
  struct Communicator {
    std::string name;
    int ranks, rank;
    Sequence collectives;
    std::map<std::string, Sequence> messages;
    bool isInProgress = false, hasEnded = false;
    Handle stream = nullptr;
  };
  void append(Sequence &sequence, const CollectiveCall &call,
              const Communicator &communicator);
  void message(Handle communicator, int from, int to, bool isSent,
               uint64_t count, uint32_t type);
  std::shared_ptr<File> file(const std::string &name, bool isOwn) const;

  Report report;
  const std::string folder;
  std::map<Handle, Communicator> communicators;
};

} // namespace fcdp::contracts
