// SPDX-License-Identifier: Apache-2.0
//
// An NCCL whose ranks are processes of one machine, each with a fake device of
// its own.
//
// A fake device works only when somebody asks it to. A thread asks on behalf of
// the other ranks: it has the device go on as far as they need it to.

#include "Meeting.h"
#include "fake/NcclCalls.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

using namespace fcdp::fake;
using fcdp::emulated::Meeting;
using fcdp::emulated::RankState;

namespace {

constexpr std::chrono::microseconds pollInterval(50);

/// The header of a message, or of a part of one to a single peer.
struct PartHeader {
  uint64_t peer, bytes;
};

/// The peer of a header for all.
constexpr uint64_t everybody = ~uint64_t(0);

Machine &machine() { return Machine::instance(); }

class ProcessComm final : public ncclComm {
public:
  ProcessComm(const std::string &name, const std::string &group, size_t ranks,
              size_t rank, const ncclConfig_t &config)
      : ncclComm(ranks, config), meeting(name),
        kind(group.substr(0, group.find('-'))), rank(rank) {}

  ncclResult_t progress() override;
  ncclResult_t prepare(cudaStream_t stream, const Part &part) override;
  void put(cudaStream_t stream, Part part) override;
  ncclResult_t registerBuffer(void *address, size_t bytes,
                              void **handle) override;
  ncclResult_t deregisterBuffer() override { return ncclSuccess; }
  ncclResult_t registerWindow(void *address, size_t bytes, ncclWindow_t *window,
                              int flags) override;
  ncclResult_t deregisterWindow() override { return ncclSuccess; }
  bool hasWindow() const override { return hasMadeWindow; }
  void leave() override { own().hasLeft.store(1, std::memory_order_release); }
  void release() override;

  RankState &own() const { return meeting.state(rank); }
  /// Has the device go on to the collectives that other ranks wait for.
  void serve();

  const Meeting meeting;
  /// The first part of the name that the program gave it: "node" of
  /// "node-gather".
  const std::string kind;
  const size_t rank;
  /// Device memory that it takes.
  void *buffer = nullptr;

private:
  bool tryToMeet(uint64_t number, const Part &part);
  bool tryToMakeWindow();

  /// Collectives that are in a stream, and the places of those that may not
  /// have ended.
  uint64_t numIssued = 0;
  std::deque<std::pair<uint64_t, Point>> issued;
  /// The kinds of collectives that it has connected for.
  std::set<std::string> connected;
  /// The place for the handle of the window that is being made.
  ncclWindow_t *awaitedWindow = nullptr;
  bool hasMadeWindow = false;
};

std::set<ProcessComm *> live;

void write(const ProcessComm *comm, size_t &at, uint64_t peer,
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

void writeMessage(const ProcessComm *comm, const Part &part) {
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
std::optional<std::span<const std::byte>>
findPart(const ProcessComm *comm, size_t from, uint64_t peer, size_t &at) {
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

void receive(const ProcessComm *comm, size_t from, uint64_t peer, size_t &at,
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
void reduce(const ProcessComm *comm, const Transfer &part) {
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

void readMessages(const ProcessComm *comm, const Part &part) {
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
bool allHave(const ProcessComm *comm, Member member, uint64_t number) {
  for (size_t rank = 0; rank < comm->ranks; ++rank)
    if ((comm->meeting.state(rank).*member).load(std::memory_order_acquire) <
        number)
      return false;
  return true;
}

/// Runs collective `number` if it can end. Returns whether it did.
bool ProcessComm::tryToMeet(uint64_t number, const Part &part) {
  if (!isLive)
    return !part.isByCopyEngines;
  RankState &state = own();
  state.wanted.store(number + 1, std::memory_order_release);
  if (state.written.load(std::memory_order_relaxed) == number) {
    // A message replaces that of the collective before.
    if (!allHave(this, &RankState::ended, number))
      return false;
    writeMessage(this, part);
    state.written.store(number + 1, std::memory_order_release);
  }
  if (!allHave(this, &RankState::written, number + 1))
    return false;
  readMessages(this, part);
  state.ended.store(number + 1, std::memory_order_release);
  return true;
}

/// Returns the bytes that a rank sends to others in a collective.
size_t countSent(const ProcessComm *comm, const Part &part) {
  if (part.isAllGather)
    return (comm->ranks - 1) * part.gather.bytes;
  if (part.reduction)
    return (comm->ranks - 1) * part.reduction->bytes;
  size_t bytes = 0;
  for (const Transfer &send : part.sends)
    bytes += size_t(send.peer) == comm->rank ? 0 : send.bytes;
  return bytes;
}

/// Returns the kind of a collective. NCCL chooses an algorithm by size, and
/// connects ranks at its first use.
std::string kindOf(const ProcessComm *comm, const Part &part) {
  return comm->kind + (part.isAllGather ? " gather " : " other ") +
         std::to_string(std::bit_width(countSent(comm, part)));
}

double secondsOf(const ProcessComm *comm, const Part &part) {
  if (!machine().speed)
    return 0;
  return machine().speed->first(kindOf(comm, part)) +
         machine().speed->collective(comm->kind, double(countSent(comm, part)));
}

/// The call of the first collective of a kind then waits until all ranks have
/// made it, as NCCL does to connect them.
ncclResult_t ProcessComm::prepare(cudaStream_t stream, const Part &part) {
  if (isCaptured(stream))
    return ncclInvalidUsage;
  if (!machine().doesNothing && connected.insert(kindOf(this, part)).second)
    own().connections.fetch_add(1, std::memory_order_release);
  return ncclSuccess;
}

void ProcessComm::put(cudaStream_t on, Part part) {
  if (machine().doesNothing)
    return;
  uint64_t number = numIssued++;
  double seconds = secondsOf(this, part);
  Point end = machine().enqueue(
      streamOf(on),
      [this, number, part = std::move(part)] {
        return tryToMeet(number, part);
      },
      seconds);
  issued.emplace_back(number, end);
}

void ProcessComm::serve() {
  uint64_t ended = own().ended.load(std::memory_order_relaxed);
  while (!issued.empty() && issued.front().first < ended)
    issued.pop_front();
  uint64_t wanted = 0;
  for (size_t peer = 0; peer < ranks; ++peer)
    if (peer != rank)
      wanted = std::max(
          wanted, meeting.state(peer).wanted.load(std::memory_order_acquire));
  for (const auto &[number, end] : issued)
    if (number < wanted && !machine().isDone(end))
      return;
}

/// Runs while there are communicators. Guarded by the machine's lock.
std::jthread server;

void startServer() {
  if (!server.joinable() && !machine().doesNothing)
    server = std::jthread([](std::stop_token stop) {
      while (!stop.stop_requested()) {
        {
          Lock lock(machine().mutex);
          for (ProcessComm *comm : std::set(live))
            comm->serve();
        }
        std::this_thread::sleep_for(pollInterval);
      }
    });
}

template <typename Member>
bool allAre(const ProcessComm *comm, Member member) {
  for (size_t rank = 0; rank < comm->ranks; ++rank)
    if (!(comm->meeting.state(rank).*member).load(std::memory_order_acquire))
      return false;
  return true;
}

/// Ends the call for a window if all ranks have called. Returns whether it did.
bool ProcessComm::tryToMakeWindow() {
  if (!allHave(this, &RankState::windows, own().windows))
    return false;
  *std::exchange(awaitedWindow, nullptr) = reinterpret_cast<ncclWindow_t>(this);
  hasMadeWindow = true;
  return true;
}

ncclResult_t ProcessComm::progress() {
  if (!allAre(this, &RankState::hasJoined) ||
      !allHave(this, &RankState::connections, own().connections) ||
      (own().hasLeft && !allAre(this, &RankState::hasLeft)) ||
      (awaitedWindow && !tryToMakeWindow()))
    return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ProcessComm::registerBuffer(void *address, size_t bytes,
                                         void **handle) {
  if (!machine().translate(address, bytes))
    return ncclInvalidArgument;
  *handle = this;
  return ncclSuccess;
}

ncclResult_t ProcessComm::registerWindow(void *address, size_t bytes,
                                         ncclWindow_t *window, int) {
  if (!machine().isShared(address, bytes))
    return ncclUnhandledCudaError;
  own().windows.fetch_add(1, std::memory_order_release);
  awaitedWindow = window;
  return ncclSuccess;
}

void ProcessComm::release() {
  live.erase(this);
  if (buffer)
    machine().release(std::exchange(buffer, nullptr));
}

} // namespace

namespace fcdp::fake {

int ncclVersion() { return NCCL_VERSION_CODE; }

ncclUniqueId makeId() {
  std::string name = Meeting::make();
  ncclUniqueId id{};
  std::memcpy(id.internal, name.data(), name.size());
  return id;
}

ncclComm_t makeCommunicator(const ncclUniqueId &id, int ranks, int rank,
                            const ncclConfig_t &config) {
  if (ranks > int(Meeting::mostRanks))
    return nullptr;
  auto *made =
      new ProcessComm(id.internal, config.commName ? config.commName : "",
                      size_t(ranks), size_t(rank), config);
  if (double bytes =
          machine().speed ? machine().speed->bytes("communicator") : 0)
    made->buffer = machine().allocate(size_t(bytes));
  made->own().hasJoined.store(1, std::memory_order_release);
  live.insert(made);
  startServer();
  return made;
}

void ended() {
  std::jthread last;
  Lock lock(machine().mutex);
  if (live.empty())
    last = std::move(server);
  // Its end needs the lock.
  lock.unlock();
}

} // namespace fcdp::fake
