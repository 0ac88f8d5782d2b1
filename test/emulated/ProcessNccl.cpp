// SPDX-License-Identifier: Apache-2.0
//
// An NCCL whose ranks are processes of one machine, each with a fake device of
// its own. As in test/runtime/cuda/fake, a collective is in its stream only
// after ncclCommGetAsyncError has said that nothing is in progress.
//
// A fake device works only when somebody asks it to. A thread asks on behalf of
// the other ranks: it has the device go on as far as they need it to.

#include "Meeting.h"
#include "fake/Machine.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <nccl.h>
#include <optional>
#include <set>
#include <thread>
#include <utility>

using namespace fcdp::fake;
using fcdp::emulated::Meeting;
using fcdp::emulated::RankState;

namespace {

constexpr std::chrono::microseconds pollInterval(50);

struct Transfer {
  int peer;
  const std::byte *from;
  std::byte *to;
  size_t bytes;
};

/// One rank's part of a collective.
struct Part {
  bool isAllGather = false;
  /// A sum of f32: the whole, and this rank's part of it.
  std::optional<Transfer> reduction;
  Transfer gather{};
  std::vector<Transfer> sends, recvs;
};

/// The header of a message, or of a part of one to a single peer.
struct PartHeader {
  uint64_t peer, bytes;
};

/// The peer of a header for all.
constexpr uint64_t everybody = ~uint64_t(0);

Machine &machine() { return Machine::instance(); }

using Lock = std::unique_lock<std::recursive_mutex>;
Lock enter(const char *entryPoint) {
  Lock lock(machine().mutex);
  machine().count(entryPoint);
  return lock;
}

} // namespace

/// Never deleted, because commands of streams refer to it. Guarded by the
/// machine's lock.
struct ncclComm {
  ncclComm(const std::string &name, const std::string &group, int ranks,
           int rank)
      : meeting(name), kind(group.substr(0, group.find('-'))),
        ranks(size_t(ranks)), rank(size_t(rank)) {}

  RankState &own() const { return meeting.state(rank); }

  const Meeting meeting;
  /// Of the name that the program gave it: "node" of "node-gather".
  const std::string kind;
  const size_t ranks, rank;
  /// Device memory that it takes.
  void *buffer = nullptr;
  bool isAborted = false;
  /// Collectives that are in a stream, and the places of those that may not
  /// have ended.
  uint64_t numIssued = 0;
  std::deque<std::pair<uint64_t, Point>> issued;
  /// Where the handle of the window goes that is being made.
  ncclWindow_t *awaitedWindow = nullptr;
  /// Parts that were called but are not in a stream yet.
  std::vector<std::pair<cudaStream_t, Part>> pending;
};

namespace {

std::set<ncclComm_t> live;

void write(ncclComm_t comm, size_t &at, uint64_t peer,
           const Transfer &transfer) {
  std::span<std::byte> message = comm->meeting.message(comm->rank);
  PartHeader header{peer, transfer.bytes};
  const std::byte *from = machine().translate(transfer.from, transfer.bytes);
  if (!from && transfer.bytes)
    return machine().fail("a message of memory that is not there");
  if (at + sizeof(header) + transfer.bytes > message.size())
    return machine().fail("a message of more bytes than are emulated");
  std::memcpy(message.data() + at, &header, sizeof(header));
  at += sizeof(header);
  std::memcpy(message.data() + at, from, transfer.bytes);
  at += transfer.bytes;
}

void writeMessage(ncclComm_t comm, const Part &part) {
  size_t bytes = 0;
  if (part.isAllGather)
    write(comm, bytes, everybody, part.gather);
  if (part.reduction)
    write(comm, bytes, everybody,
          {0, part.reduction->from, nullptr,
           part.reduction->bytes * comm->ranks});
  for (const Transfer &send : part.sends)
    write(comm, bytes, uint64_t(send.peer), send);
  comm->own().messageBytes.store(bytes, std::memory_order_relaxed);
}

/// Returns the next part of the message of `from` to `peer`, or nothing.
std::optional<std::span<const std::byte>> findPart(ncclComm_t comm, size_t from,
                                                   uint64_t peer, size_t &at) {
  auto message = comm->meeting.message(from).first(
      comm->meeting.state(from).messageBytes.load(std::memory_order_relaxed));
  while (at < message.size()) {
    PartHeader header;
    std::memcpy(&header, message.data() + at, sizeof(header));
    auto bytes = message.subspan(at + sizeof(header), header.bytes);
    at += sizeof(header) + header.bytes;
    if (header.peer == peer)
      return bytes;
  }
  return std::nullopt;
}

void receive(ncclComm_t comm, size_t from, uint64_t peer, size_t &at,
             std::byte *to, size_t bytes) {
  auto part = findPart(comm, from, peer, at);
  std::byte *target = machine().translate(to, bytes);
  if (!part || part->size() != bytes)
    return machine().fail("ranks call different collectives, or of different "
                          "sizes");
  if (!target && bytes)
    return machine().fail("a message to memory that is not there");
  std::memcpy(target, part->data(), bytes);
}

/// Sums this rank's part of all messages, in the order of the ranks.
void reduce(ncclComm_t comm, const Transfer &part) {
  std::byte *to = machine().translate(part.to, part.bytes);
  if (!to && part.bytes)
    return machine().fail("a sum to memory that is not there");
  std::vector<float> sum(part.bytes / sizeof(float));
  for (size_t from = 0; from < comm->ranks; ++from) {
    size_t at = 0;
    auto message = findPart(comm, from, everybody, at);
    if (!message || message->size() != part.bytes * comm->ranks)
      return machine().fail("ranks call different collectives, or of different "
                            "sizes");
    auto own = message->subspan(comm->rank * part.bytes, part.bytes);
    for (size_t i = 0; i < sum.size(); ++i) {
      float value;
      std::memcpy(&value, own.data() + i * sizeof(float), sizeof(float));
      sum[i] += value;
    }
  }
  std::memcpy(to, sum.data(), part.bytes);
}

void readMessages(ncclComm_t comm, const Part &part) {
  for (size_t from = 0; part.isAllGather && from < comm->ranks; ++from) {
    size_t at = 0;
    receive(comm, from, everybody, at,
            part.gather.to + from * part.gather.bytes, part.gather.bytes);
  }
  if (part.reduction)
    reduce(comm, *part.reduction);
  std::vector<size_t> at(comm->ranks);
  for (const Transfer &recv : part.recvs)
    receive(comm, size_t(recv.peer), comm->rank, at[size_t(recv.peer)], recv.to,
            recv.bytes);
}

template <typename Member>
bool allHave(ncclComm_t comm, Member member, uint64_t number) {
  for (size_t rank = 0; rank < comm->ranks; ++rank)
    if ((comm->meeting.state(rank).*member).load(std::memory_order_acquire) <
        number)
      return false;
  return true;
}

/// Runs collective `number` if it can end. Returns whether it did.
bool tryToMeet(ncclComm_t comm, uint64_t number, const Part &part) {
  if (!live.count(comm) || comm->isAborted)
    return true;
  RankState &own = comm->own();
  own.wanted.store(number + 1, std::memory_order_release);
  if (own.written.load(std::memory_order_relaxed) == number) {
    // A message replaces that of the collective before.
    if (!allHave(comm, &RankState::ended, number))
      return false;
    writeMessage(comm, part);
    own.written.store(number + 1, std::memory_order_release);
  }
  if (!allHave(comm, &RankState::written, number + 1))
    return false;
  readMessages(comm, part);
  own.ended.store(number + 1, std::memory_order_release);
  return true;
}

/// Returns the bytes that a rank sends to others in a collective.
size_t countSent(ncclComm_t comm, const Part &part) {
  if (part.isAllGather)
    return (comm->ranks - 1) * part.gather.bytes;
  if (part.reduction)
    return (comm->ranks - 1) * part.reduction->bytes;
  size_t bytes = 0;
  for (const Transfer &send : part.sends)
    bytes += send.bytes;
  return bytes;
}

double secondsOf(ncclComm_t comm, const Part &part) {
  if (!machine().speed)
    return 0;
  size_t sent = countSent(comm, part);
  // NCCL chooses an algorithm by size, and connects ranks at its first use.
  std::string work = comm->kind + (part.isAllGather ? " gather " : " other ") +
                     std::to_string(std::bit_width(sent));
  return machine().speed->first(work) +
         machine().speed->collective(comm->kind, double(sent));
}

void flush(ncclComm_t comm) {
  if (machine().doesNothing)
    comm->pending.clear();
  for (auto &[on, part] : comm->pending) {
    uint64_t number = comm->numIssued++;
    double seconds = secondsOf(comm, part);
    Point end = machine().enqueue(
        streamOf(on),
        [comm, number, part = std::move(part)] {
          return tryToMeet(comm, number, part);
        },
        seconds);
    comm->issued.emplace_back(number, end);
  }
  comm->pending.clear();
}

/// Has the device go on to the collectives that other ranks wait for.
void serve(ncclComm_t comm) {
  uint64_t ended = comm->own().ended.load(std::memory_order_relaxed);
  while (!comm->issued.empty() && comm->issued.front().first < ended)
    comm->issued.pop_front();
  uint64_t wanted = 0;
  for (size_t rank = 0; rank < comm->ranks; ++rank)
    if (rank != comm->rank)
      wanted = std::max(wanted, comm->meeting.state(rank).wanted.load(
                                    std::memory_order_acquire));
  for (const auto &[number, end] : comm->issued)
    if (number < wanted && !machine().isDone(end))
      return;
}

/// Runs while there are communicators.
class Server {
public:
  void start() {
    if (!thread.joinable() && !machine().doesNothing)
      thread = std::jthread([](std::stop_token stop) {
        while (!stop.stop_requested()) {
          {
            Lock lock(machine().mutex);
            for (ncclComm_t comm : std::set(live))
              if (!comm->isAborted)
                serve(comm);
          }
          std::this_thread::sleep_for(pollInterval);
        }
      });
  }
  /// Called without the machine's lock.
  void stop() { thread = {}; }

private:
  std::jthread thread;
};

Server server;

/// State between ncclGroupStart and ncclGroupEnd.
thread_local bool inGroup = false;
thread_local ncclComm_t groupComm = nullptr;
thread_local cudaStream_t groupStream = nullptr;
thread_local Part groupPart;

template <typename Member>
bool allAre(ncclComm_t comm, Member member) {
  for (size_t rank = 0; rank < comm->ranks; ++rank)
    if (!(comm->meeting.state(rank).*member).load(std::memory_order_acquire))
      return false;
  return true;
}

/// Ends the call for a window if all ranks have called. Returns whether it did.
bool tryToMakeWindow(ncclComm_t comm) {
  if (!allHave(comm, &RankState::windows, comm->own().windows))
    return false;
  *std::exchange(comm->awaitedWindow, nullptr) =
      reinterpret_cast<ncclWindow_t>(comm);
  return true;
}

ncclResult_t stateOf(ncclComm_t comm) {
  if (!live.count(comm))
    return ncclInvalidArgument;
  if (!allAre(comm, &RankState::hasJoined) ||
      (comm->own().hasLeft && !allAre(comm, &RankState::hasLeft)))
    return ncclInProgress;
  if (comm->awaitedWindow && !tryToMakeWindow(comm))
    return ncclInProgress;
  if (comm->pending.empty())
    return ncclSuccess;
  flush(comm);
  return ncclInProgress;
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, Part part) {
  ncclResult_t state = stateOf(comm);
  if (state != ncclSuccess)
    return state == ncclInProgress ? ncclInvalidUsage : state;
  if (isCaptured(stream))
    return ncclInvalidUsage;
  comm->pending.emplace_back(stream, std::move(part));
  return ncclInProgress;
}

ncclResult_t transfer(bool isSend, const std::byte *from, std::byte *to,
                      size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (!inGroup || type != ncclInt8 || (groupComm && groupComm != comm))
    return ncclInvalidUsage;
  groupComm = comm;
  groupStream = stream;
  (isSend ? groupPart.sends : groupPart.recvs)
      .push_back({peer, from, to, count});
  return ncclInProgress;
}

/// Removes a communicator, and ends the thread with the last one.
ncclResult_t remove(ncclComm_t comm, const char *entryPoint) {
  Lock lock = enter(entryPoint);
  live.erase(comm);
  if (comm->buffer)
    machine().release(std::exchange(comm->buffer, nullptr));
  if (!live.empty())
    return ncclSuccess;
  lock.unlock();
  server.stop();
  return ncclSuccess;
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::string name = Meeting::make();
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->internal, name.data(), name.size());
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclInvalidUsage ? "invalid usage" : "something failed";
}

const char *ncclGetLastError(ncclComm_t) { return "the fake says no more"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  Lock lock = enter("ncclCommInitRankConfig");
  if (!config || config->blocking != 0 || ranks > int(Meeting::mostRanks))
    return ncclInvalidArgument;
  *comm = new ncclComm(id.internal, config->commName ? config->commName : "",
                       ranks, rank);
  if (double bytes =
          machine().speed ? machine().speed->bytes("communicator") : 0)
    (*comm)->buffer = machine().allocate(size_t(bytes));
  (*comm)->own().hasJoined.store(1, std::memory_order_release);
  live.insert(*comm);
  server.start();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  Lock lock = enter("ncclCommGetAsyncError");
  *state = stateOf(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  comm->isAborted = true;
  return remove(comm, "ncclCommAbort");
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock = enter("ncclCommFinalize");
  if (!live.count(comm))
    return ncclInvalidArgument;
  comm->own().hasLeft.store(1, std::memory_order_release);
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return remove(comm, "ncclCommDestroy");
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *address,
                              size_t bytes, void **handle) {
  Lock lock = enter("ncclCommRegister");
  if (!machine().translate(address, bytes))
    return ncclInvalidArgument;
  *handle = comm;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t, void *) {
  Lock lock = enter("ncclCommDeregister");
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address,
                                    size_t bytes, ncclWindow_t *window, int) {
  Lock lock = enter("ncclCommWindowRegister");
  if (!machine().isShared(address, bytes))
    return ncclInvalidArgument;
  comm->own().windows.fetch_add(1, std::memory_order_release);
  comm->awaitedWindow = window;
  return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t) {
  Lock lock = enter("ncclCommWindowDeregister");
  return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  Lock lock = enter("ncclMemAlloc");
  *address = machine().allocate(bytes, /*isShared=*/true);
  return *address ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *address) {
  Lock lock = enter("ncclMemFree");
  return machine().release(address) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  Lock lock = enter("ncclAllGather");
  if (type != ncclInt8)
    return ncclInvalidArgument;
  Part part;
  part.isAllGather = true;
  part.gather = {0, static_cast<const std::byte *>(in),
                 static_cast<std::byte *>(out), count};
  return call(comm, stream, std::move(part));
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  Lock lock = enter("ncclReduceScatter");
  if (type != ncclFloat32 || operation != ncclSum)
    return ncclInvalidArgument;
  Part part;
  part.reduction =
      Transfer{0, static_cast<const std::byte *>(in),
               static_cast<std::byte *>(out), count * sizeof(float)};
  return call(comm, stream, std::move(part));
}

ncclResult_t ncclGroupStart() {
  inGroup = true;
  groupComm = nullptr;
  groupPart = {};
  return ncclSuccess;
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  Lock lock = enter("ncclSend");
  return transfer(true, static_cast<const std::byte *>(from), nullptr, count,
                  type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  Lock lock = enter("ncclRecv");
  return transfer(false, nullptr, static_cast<std::byte *>(to), count, type,
                  peer, comm, stream);
}

ncclResult_t ncclGroupEnd() {
  Lock lock = enter("ncclGroupEnd");
  inGroup = false;
  return groupComm ? call(groupComm, groupStream, std::move(groupPart))
                   : ncclSuccess;
}

} // extern "C"
