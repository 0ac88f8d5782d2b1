// SPDX-License-Identifier: Apache-2.0

#include "Order.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

namespace fcdp::contracts {

class Order::File {
public:
  File(std::string path, bool isOwn) : path(std::move(path)) {
    if (!isOwn)
      return;
    descriptor = open(this->path.c_str(),
                      O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0) {
      std::fprintf(stderr, "contracts: error: cannot write %s\n",
                   this->path.c_str());
      std::abort();
    }
  }
  ~File() {
    if (descriptor >= 0)
      close(descriptor);
  }
  File(const File &) = delete;
  File &operator=(const File &) = delete;

  const std::string path;

  void write(uint64_t number, const CollectiveCall &call) const {
    if (pwrite(descriptor, &call, sizeof(call), offset(number)) !=
        ssize_t(sizeof(call))) {
      std::fprintf(stderr, "contracts: error: cannot write %s\n", path.c_str());
      std::abort();
    }
  }
  /// Returns nothing if the peer has not made the call yet.
  std::optional<CollectiveCall> read(uint64_t number) {
    if (descriptor < 0)
      descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    CollectiveCall call;
    if (descriptor < 0 || pread(descriptor, &call, sizeof(call),
                                offset(number)) != ssize_t(sizeof(call)))
      return std::nullopt;
    return call;
  }

private:
  static off_t offset(uint64_t number) {
    return off_t(number * sizeof(CollectiveCall));
  }
  int descriptor = -1;
};

static const char *nameOf(uint32_t kind) {
  switch (kind) {
  case CollectiveCall::AllGather:
    return "ncclAllGather";
  case CollectiveCall::ReduceScatter:
    return "ncclReduceScatter";
  case CollectiveCall::AllReduce:
    return "ncclAllReduce";
  case CollectiveCall::Broadcast:
    return "ncclBroadcast";
  case CollectiveCall::Message:
    return "a message";
  default:
    return "the communicator's end";
  }
}

std::string describe(const CollectiveCall &call) {
  std::string text = nameOf(call.kind);
  if (call.kind == CollectiveCall::End)
    return text;
  text += " of " + std::to_string(call.count) + " elements of type " +
          std::to_string(call.type);
  if (call.parameter)
    text += " with root or operation " + std::to_string(call.parameter);
  return text;
}

std::shared_ptr<Order::File> Order::file(const std::string &name,
                                         bool isOwn) const {
  return std::make_shared<File>(folder + "/" + name, isOwn);
}

void Order::joined(Handle communicator, const std::string &id, int ranks,
                   int rank) {
  Communicator made;
  made.name = id;
  made.ranks = ranks;
  made.rank = rank;
  if (!folder.empty())
    for (int one = 0; one < ranks; ++one) {
      auto its = file(id + "." + std::to_string(one), one == rank);
      if (one == rank)
        made.collectives.own = its;
      else
        made.collectives.others.push_back(its);
    }
  communicators.insert_or_assign(communicator, std::move(made));
}

uint64_t Order::ranksOf(Handle communicator) const {
  auto found = communicators.find(communicator);
  return found == communicators.end() ? 1 : uint64_t(found->second.ranks);
}

void Order::append(Sequence &sequence, const CollectiveCall &call,
                   const Communicator &communicator) {
  if (!sequence.own)
    return;
  // Written before the others are read, so that of two ranks that call at the
  // same time one at least sees the other's.
  uint64_t number = sequence.numCalls++;
  sequence.own->write(number, call);
  for (const auto &other : sequence.others) {
    auto theirs = other->read(number);
    if (theirs && *theirs != call)
      return report({"order",
                     "call " + std::to_string(number) + " of communicator " +
                         communicator.name + " to be " + describe(*theirs) +
                         ", as in " + other->path,
                     "rank " + std::to_string(communicator.rank) + " of " +
                         std::to_string(communicator.ranks) + " calls " +
                         describe(call)});
  }
}

void Order::called(Handle communicator, const CollectiveCall &call) {
  auto found = communicators.find(communicator);
  if (found != communicators.end())
    append(found->second.collectives, call, found->second);
}

void Order::ended(Handle communicator) {
  auto found = communicators.find(communicator);
  if (found == communicators.end() || found->second.hasEnded)
    return;
  found->second.hasEnded = true;
  append(found->second.collectives, {}, found->second);
}

void Order::message(Handle communicator, int from, int to, bool isSent,
                    uint64_t count, uint32_t type) {
  auto found = communicators.find(communicator);
  if (found == communicators.end() || folder.empty())
    return;
  std::string pair = found->second.name + "." + std::to_string(from) + "-" +
                     std::to_string(to) + ".";
  std::string own = pair + (isSent ? "sent" : "received");
  Sequence &sequence = found->second.messages[own];
  if (!sequence.own) {
    sequence.own = file(own, true);
    sequence.others = {file(pair + (isSent ? "received" : "sent"), false)};
  }
  append(sequence, {CollectiveCall::Message, type, count, 0}, found->second);
}

void Order::sent(Handle communicator, int peer, uint64_t count, uint32_t type) {
  auto found = communicators.find(communicator);
  if (found != communicators.end())
    message(communicator, found->second.rank, peer, true, count, type);
}

void Order::received(Handle communicator, int peer, uint64_t count,
                     uint32_t type) {
  auto found = communicators.find(communicator);
  if (found != communicators.end())
    message(communicator, peer, found->second.rank, false, count, type);
}

void Order::inProgress(Handle communicator, Handle stream) {
  auto found = communicators.find(communicator);
  if (found == communicators.end())
    return;
  found->second.isInProgress = true;
  found->second.stream = stream;
}

void Order::settled(Handle communicator) {
  auto found = communicators.find(communicator);
  if (found != communicators.end())
    found->second.isInProgress = false;
}

void Order::requireSettled(Handle communicator) {
  auto found = communicators.find(communicator);
  if (found != communicators.end() && found->second.isInProgress)
    report(
        {"order",
         "that ncclCommGetAsyncError has reported that nothing is in progress "
         "on communicator " +
             found->second.name,
         "a call on it that is in progress"});
}

void Order::requireSettledOn(Handle stream) {
  for (const auto &[handle, one] : communicators)
    if (one.isInProgress && one.stream == stream)
      return requireSettled(handle);
}

} // namespace fcdp::contracts
