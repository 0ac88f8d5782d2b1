// SPDX-License-Identifier: Apache-2.0
//
// An NCCL whose ranks are devices of the machine of Machine.h, in one process.
// Communicators are non-blocking in the most difficult way that NCCL's manual
// allows: a collective is in its stream only after ncclCommGetAsyncError has
// said that nothing is in progress.

#include "FakeNccl.h"
#include "Machine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nccl.h>
#include <set>
#include <utility>

namespace fcdp::fake {

namespace {

struct Transfer {
  int peer;
  const std::byte *from;
  std::byte *to;
  size_t bytes;
};

/// One rank's part of a collective.
struct Part {
  std::shared_ptr<Stream> stream;
  /// Number of commands before it in its stream.
  uint64_t position = 0;
  bool isAllGather = false;
  Transfer gather{};
  /// A sum of f32 over the ranks, of so many bytes a rank.
  std::optional<Transfer> reduction;
  std::vector<Transfer> sends, recvs;
  int device = 0;
  int ctas = 0;
  /// Whether its thread blocks are resident.
  bool isResident = false;
};

/// One collective of a group.
struct Meeting {
  explicit Meeting(size_t ranks) : parts(ranks) {}
  std::vector<std::optional<Part>> parts;
  bool isDone = false;
};

struct Group {
  size_t ranks = 0;
  std::map<int, int> devices; ///< devices of ranks that have joined
  std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
  /// By number, the ranks that have called for it, and the size.
  struct Window {
    std::set<int> ranks;
    size_t bytes = 0;
    bool isShared = true;
  };
  std::map<uint64_t, Window> windows;
};

struct Faults {
  int version = NCCL_VERSION_CODE;
  std::set<int> dead, hung;
  RegistrationFault registration = RegistrationFault::None;
  int slowQueries = 0;
};

std::map<std::string, std::shared_ptr<Group>> groups;
Faults faults;
std::set<ncclComm_t> live;
std::multiset<const void *> registrations; ///< by communicator
std::set<ncclComm_t> windows;              ///< those that have one
uint64_t ids = 0;

/// Thread blocks of a collective if its communicator does not limit them, as
/// NCCL has them on NVLink.
constexpr int defaultCtas = 32;

Machine &machine() { return Machine::instance(); }

using Lock = std::unique_lock<std::recursive_mutex>;
Lock enter(const char *entryPoint) {
  Lock lock(machine().mutex);
  machine().count(entryPoint);
  return lock;
}

/// Has the part's thread blocks start if the device has room for all of them.
/// Returns whether they are resident.
bool start(Part &part) {
  int &busy = machine().busyMultiprocessors[part.device];
  if (part.isResident || busy + part.ctas > machine().multiprocessors)
    return part.isResident;
  busy += part.ctas;
  return part.isResident = true;
}

void end(Part &part) {
  if (std::exchange(part.isResident, false))
    machine().busyMultiprocessors[part.device] -= part.ctas;
}

bool hasAny(const Group &group, const std::set<int> &devices) {
  for (auto &[rank, device] : group.devices)
    if (devices.count(device))
      return true;
  return false;
}

} // namespace
} // namespace fcdp::fake

using namespace fcdp::fake;

/// Never deleted, because commands of streams refer to it. `live` says whether
/// it is valid.
struct ncclComm {
  ncclComm(std::shared_ptr<Group> group, int rank, int device)
      : group(std::move(group)), rank(rank), device(device) {}

  const std::shared_ptr<Group> group;
  const int rank;
  const int device;
  bool isAborted = false;
  int maxCtas = defaultCtas;
  uint64_t collectives = 0;
  uint64_t windowCalls = 0;
  int queriesLeft = 0;
  /// What it has connected for: the kind, and the power of two of the size.
  std::set<std::pair<bool, int>> connected;
  std::vector<void *> buffers;
  /// Where the handle of the window goes that is being made.
  ncclWindow_t *awaitedWindow = nullptr;
  /// Parts that were called but are not in a stream yet.
  std::vector<std::pair<cudaStream_t, Part>> pending;
};

namespace {

void copy(const Transfer &transfer, std::byte *to, const char *what) {
  const std::byte *from = machine().translate(transfer.from, transfer.bytes);
  std::byte *target = machine().translate(to, transfer.bytes);
  if (!from || !target)
    return machine().fail(std::string(what) + " of memory that is not there");
  std::memmove(target, from, transfer.bytes);
}

void runGather(const Meeting &meeting) {
  for (auto &from : meeting.parts)
    for (auto &to : meeting.parts) {
      if (from->gather.bytes != to->gather.bytes)
        return machine().fail("ranks gather different sizes");
      copy(from->gather,
           to->gather.to + (&from - meeting.parts.data()) * from->gather.bytes,
           "a gather");
    }
}

void runReduction(const Meeting &meeting) {
  const size_t ranks = meeting.parts.size();
  for (size_t rank = 0; rank < ranks; ++rank) {
    const Transfer &own = *meeting.parts[rank]->reduction;
    auto *to =
        reinterpret_cast<float *>(machine().translate(own.to, own.bytes));
    std::vector<float> sums(own.bytes / sizeof(float));
    for (auto &part : meeting.parts) {
      auto *from = reinterpret_cast<const float *>(
          machine().translate(part->reduction->from, ranks * own.bytes));
      if (!from || !to || part->reduction->bytes != own.bytes)
        return machine().fail("a reduction that does not fit");
      for (size_t i = 0; i < sums.size(); ++i)
        sums[i] += from[rank * sums.size() + i];
    }
    std::copy(sums.begin(), sums.end(), to);
  }
}

/// Matches sends and receives between two ranks in the order of the calls.
void runTransfers(const Meeting &meeting) {
  for (size_t sender = 0; sender < meeting.parts.size(); ++sender) {
    std::map<int, size_t> next;
    for (const Transfer &send : meeting.parts[sender]->sends) {
      std::vector<const Transfer *> fitting;
      for (const Transfer &recv : meeting.parts[size_t(send.peer)]->recvs)
        if (recv.peer == int(sender))
          fitting.push_back(&recv);
      size_t index = next[send.peer]++;
      if (index >= fitting.size() || fitting[index]->bytes != send.bytes)
        return machine().fail("a send that no receive fits");
      copy(send, fitting[index]->to, "a transfer");
    }
  }
}

/// Returns whether all ranks' parts are at the heads of their streams and have
/// room on their devices.
bool isEverybodyThere(Meeting &meeting, const Part &own) {
  for (auto &part : meeting.parts) {
    if (!part)
      return false;
    if (part->stream == own.stream && part->position == own.position)
      continue;
    if (!machine().advance(part->stream, part->position) ||
        part->stream->done != part->position || !start(*part))
      return false;
  }
  return true;
}

/// Runs a collective of `comm` if it can end. Returns whether it did.
bool tryToMeet(ncclComm_t comm, const std::shared_ptr<Meeting> &meeting) {
  if (!live.count(comm) || comm->isAborted || meeting->isDone)
    return true;
  Part &own = *meeting->parts[size_t(comm->rank)];
  if (!start(own) || hasAny(*comm->group, faults.dead) ||
      hasAny(*comm->group, faults.hung) || !isEverybodyThere(*meeting, own))
    return false;
  // Running the other streams may already have run this collective.
  if (meeting->isDone)
    return true;
  meeting->isDone = true;
  for (auto &part : meeting->parts)
    end(*part);
  for (auto &part : meeting->parts)
    if (part->isAllGather != own.isAllGather ||
        part->reduction.has_value() != own.reduction.has_value()) {
      machine().fail("ranks call different collectives");
      return true;
    }
  if (own.reduction)
    runReduction(*meeting);
  else
    own.isAllGather ? runGather(*meeting) : runTransfers(*meeting);
  return true;
}

void flush(ncclComm_t comm) {
  for (auto &[on, part] : comm->pending) {
    auto &meeting = comm->group->meetings[comm->collectives++];
    if (!meeting)
      meeting = std::make_shared<Meeting>(comm->group->ranks);
    part.stream = streamOf(on);
    part.position = part.stream->issued;
    part.device = comm->device;
    part.ctas = comm->maxCtas;
    meeting->parts[size_t(comm->rank)] = part;
    machine().enqueue(part.stream, [comm, meeting = meeting] {
      return tryToMeet(comm, meeting);
    });
  }
  comm->pending.clear();
}

/// State between ncclGroupStart and ncclGroupEnd.
thread_local bool inGroup = false;
thread_local ncclComm_t groupComm = nullptr;
thread_local cudaStream_t groupStream = nullptr;
thread_local Part groupPart;

/// Ends the call for a window if all ranks have called. Returns whether it did.
bool tryToMakeWindow(ncclComm_t comm) {
  const Group::Window &window = comm->group->windows[comm->windowCalls - 1];
  if (window.ranks.size() < comm->group->ranks)
    return false;
  // As NCCL does, it succeeds without a window for other memory.
  bool isMade = window.isShared;
  *std::exchange(comm->awaitedWindow, nullptr) =
      isMade ? reinterpret_cast<ncclWindow_t>(comm) : nullptr;
  if (isMade)
    windows.insert(comm);
  return true;
}

ncclResult_t stateOf(ncclComm_t comm) {
  if (!live.count(comm))
    return ncclInvalidArgument;
  for (auto &[rank, device] : comm->group->devices)
    if (device != comm->device && faults.dead.count(device))
      return ncclRemoteError;
  if (comm->group->devices.size() < comm->group->ranks)
    return ncclInProgress;
  if (comm->awaitedWindow && !tryToMakeWindow(comm))
    return ncclInProgress;
  if (comm->pending.empty())
    return ncclSuccess;
  if (comm->queriesLeft-- > 0)
    return ncclInProgress;
  flush(comm);
  return ncclInProgress;
}

ncclResult_t registrationFault() {
  switch (faults.registration) {
  case RegistrationFault::None:
    return ncclSuccess;
  case RegistrationFault::Refused:
    return ncclInvalidUsage;
  case RegistrationFault::SystemError:
    break;
  }
  return ncclSystemError;
}

/// NCCL chooses an algorithm by size, and connects the ranks for each at its
/// first use, which takes device memory.
void connect(ncclComm_t comm, const Part &part) {
  constexpr size_t bufferBytes = 1 << 20;
  size_t bytes = part.isAllGather ? part.gather.bytes
                 : part.reduction ? part.reduction->bytes
                                  : part.sends[0].bytes;
  if (!comm->connected.insert({part.isAllGather, std::bit_width(bytes)}).second)
    return;
  machine().count("connections");
  comm->buffers.push_back(machine().allocate(bufferBytes));
}

void releaseBuffers(ncclComm_t comm) {
  for (void *buffer : comm->buffers)
    machine().release(buffer);
  comm->buffers.clear();
}

ncclResult_t call(ncclComm_t comm, cudaStream_t stream, Part part) {
  ncclResult_t state = stateOf(comm);
  if (state != ncclSuccess)
    return state == ncclInProgress ? ncclInvalidUsage : state;
  connect(comm, part);
  comm->queriesLeft = faults.slowQueries;
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

} // namespace

namespace fcdp::fake {

void resetNccl() {
  Lock lock(machine().mutex);
  faults = {};
}

void setNcclVersion(int version) {
  Lock lock(machine().mutex);
  faults.version = version;
}

void killDevice(int device) {
  Lock lock(machine().mutex);
  faults.dead.insert(device);
}

void hangDevice(int device) {
  Lock lock(machine().mutex);
  faults.hung.insert(device);
}

size_t liveCommunicators() {
  Lock lock(machine().mutex);
  return live.size();
}

void slowCalls(int queries) {
  Lock lock(machine().mutex);
  faults.slowQueries = queries;
}

void failRegistrations(RegistrationFault fault) {
  Lock lock(machine().mutex);
  faults.registration = fault;
}

size_t liveWindows() {
  Lock lock(machine().mutex);
  return windows.size();
}

size_t liveRegistrations() {
  Lock lock(machine().mutex);
  return registrations.size();
}

} // namespace fcdp::fake

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = faults.version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  Lock lock = enter("ncclGetUniqueId");
  std::memset(id, 0, sizeof(*id));
  ++ids;
  std::memcpy(id, &ids, sizeof(ids));
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  default:
    return "something failed";
  }
}

const char *ncclGetLastError(ncclComm_t) { return "the fake says no more"; }

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  Lock lock = enter("ncclCommInitRankConfig");
  if (!config || config->blocking != 0)
    return ncclInvalidArgument;
  auto &group = groups[std::string(id.internal, sizeof(id.internal))];
  if (!group)
    group = std::make_shared<Group>();
  group->ranks = size_t(ranks);
  group->devices[rank] = deviceOfThread();
  *comm = new ncclComm(group, rank, deviceOfThread());
  if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT)
    (*comm)->maxCtas = config->maxCTAs;
  live.insert(*comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  Lock lock = enter("ncclCommGetAsyncError");
  *state = stateOf(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Lock lock = enter("ncclCommAbort");
  comm->isAborted = true;
  for (auto &[number, meeting] : comm->group->meetings)
    if (auto &own = meeting->parts[size_t(comm->rank)])
      end(*own);
  live.erase(comm);
  registrations.erase(comm);
  windows.erase(comm);
  releaseBuffers(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock = enter("ncclCommFinalize");
  return live.count(comm) ? ncclInProgress : ncclInvalidArgument;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Lock lock = enter("ncclCommDestroy");
  releaseBuffers(comm);
  live.erase(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *address,
                              size_t bytes, void **handle) {
  Lock lock = enter("ncclCommRegister");
  if (ncclResult_t fault = registrationFault(); fault != ncclSuccess)
    return fault;
  if (!machine().translate(address, bytes))
    return ncclInvalidArgument;
  *handle = comm;
  registrations.insert(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address,
                                    size_t bytes, ncclWindow_t *window,
                                    int flags) {
  Lock lock = enter("ncclCommWindowRegister");
  if (ncclResult_t fault = registrationFault(); fault != ncclSuccess)
    return fault;
  if (!machine().translate(address, bytes) || flags != NCCL_WIN_COLL_SYMMETRIC)
    return ncclInvalidArgument;
  Group::Window &call = comm->group->windows[comm->windowCalls++];
  if (!call.ranks.empty() && call.bytes != bytes)
    machine().fail("windows of different sizes");
  call.bytes = bytes;
  call.isShared &= machine().isShared(address, bytes);
  call.ranks.insert(comm->rank);
  comm->awaitedWindow = window;
  return ncclInProgress;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  Lock lock = enter("ncclCommWindowDeregister");
  return windows.erase(comm) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  Lock lock = enter("ncclMemAlloc");
  *address = machine().allocate(bytes, /*isShared=*/true);
  return *address ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *address) {
  Lock lock = enter("ncclMemFree");
  return machine().isShared(address, 0) && machine().release(address)
             ? ncclSuccess
             : ncclInvalidArgument;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *) {
  Lock lock = enter("ncclCommDeregister");
  auto found = registrations.find(comm);
  if (found == registrations.end())
    return ncclInvalidArgument;
  registrations.erase(found);
  return ncclSuccess;
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
