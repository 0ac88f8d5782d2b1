// SPDX-License-Identifier: Apache-2.0
//
// An NCCL whose ranks are devices of the machine of Machine.h, in one process.

#include "FakeNccl.h"
#include "NcclCalls.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

namespace fcdp::fake {

namespace {

class InProcessComm;

/// One rank's part of a collective, in a stream.
struct IssuedPart : Part {
  std::shared_ptr<Stream> stream;
  /// Number of commands before it in its stream.
  uint64_t position = 0;
  int device = 0;
  int ctas = 0;
  /// Whether its thread blocks are resident.
  bool isResident = false;
};

/// One collective of a group.
struct Meeting {
  explicit Meeting(size_t ranks) : parts(ranks) {}
  std::vector<std::optional<IssuedPart>> parts;
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
  };
  std::map<uint64_t, Window> windows;
};

struct Faults {
  int version = NCCL_VERSION_CODE;
  std::set<int> dead, hung;
  std::set<int> full;
  RegistrationFault registration = RegistrationFault::None;
};

std::map<std::string, std::shared_ptr<Group>> groups;
Faults faults;
std::set<InProcessComm *> live;
/// Contains a communicator as often as it has registered its memory, because
/// NCCL counts that.
std::multiset<const InProcessComm *> registrations;
std::set<const InProcessComm *> windows; ///< those that have one
uint64_t ids = 0;

/// Thread blocks of a collective if its communicator does not limit them, as
/// NCCL has them on NVLink.
constexpr int defaultCtas = 32;

Machine &machine() { return Machine::instance(); }

/// Has the part's thread blocks start if the device has room for all of them.
/// Returns whether they are resident.
bool start(IssuedPart &part) {
  int &busy = machine().busyMultiprocessors[part.device];
  if (part.isResident || busy + part.ctas > machine().multiprocessors)
    return part.isResident;
  busy += part.ctas;
  return part.isResident = true;
}

void end(IssuedPart &part) {
  if (std::exchange(part.isResident, false))
    machine().busyMultiprocessors[part.device] -= part.ctas;
}

bool hasAny(const Group &group, const std::set<int> &devices) {
  for (auto &[rank, device] : group.devices)
    if (devices.count(device))
      return true;
  return false;
}

class InProcessComm final : public ncclComm {
public:
  InProcessComm(std::shared_ptr<Group> group, int rank, int device,
                const ncclConfig_t &config)
      : ncclComm(group->ranks, config), group(group), rank(rank),
        device(device) {
    if (config.maxCTAs != NCCL_CONFIG_UNDEF_INT)
      maxCtas = config.maxCTAs;
  }

  ncclResult_t progress() override;
  bool isFull() const override { return faults.full.count(device); }
  ncclResult_t prepare(cudaStream_t stream, const Part &part) override;
  void put(cudaStream_t stream, Part part) override;
  ncclResult_t registerBuffer(void *address, size_t bytes,
                              void **handle) override;
  ncclResult_t deregisterBuffer() override;
  ncclResult_t registerWindow(void *address, size_t bytes, ncclWindow_t *window,
                              int flags) override;
  ncclResult_t deregisterWindow() override;
  bool hasWindow() const override { return windows.count(this); }
  void leave() override {}
  void release() override;
  bool waitsForDevice() const override {
    return machine().busyMultiprocessors[device] > 0;
  }

  const std::shared_ptr<Group> group;
  const int rank;
  const int device;

private:
  bool tryToMeet(const std::shared_ptr<Meeting> &meeting);
  /// Ends the call for a window if all ranks have called. Returns whether it
  /// did.
  bool tryToMakeWindow();

  int maxCtas = defaultCtas;
  uint64_t collectives = 0;
  uint64_t windowCalls = 0;
  /// The connections that it has: the kind, and the power of two of the size.
  std::set<std::pair<bool, int>> connected;
  std::vector<void *> buffers;
  /// The place for the handle of the window that is being made.
  ncclWindow_t *awaitedWindow = nullptr;
  char windowHandle = 0; ///< its address is the handle
};

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
bool isEverybodyThere(Meeting &meeting, const IssuedPart &own) {
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

/// Runs a collective if it can end. Returns whether it did.
bool InProcessComm::tryToMeet(const std::shared_ptr<Meeting> &meeting) {
  if (meeting->isDone)
    return true;
  IssuedPart &own = *meeting->parts[size_t(rank)];
  if (!isLive)
    return !own.isByCopyEngines;
  if (!start(own) || hasAny(*group, faults.dead) ||
      hasAny(*group, faults.hung) || !isEverybodyThere(*meeting, own))
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

void InProcessComm::put(cudaStream_t on, Part part) {
  auto &meeting = group->meetings[collectives++];
  if (!meeting)
    meeting = std::make_shared<Meeting>(group->ranks);
  IssuedPart issued;
  static_cast<Part &>(issued) = std::move(part);
  issued.stream = streamOf(on);
  issued.position = issued.stream->issued;
  issued.device = device;
  // NCCL rounds channels of sends up to a power of two (paths.cc).
  bool isTransfer = !issued.isAllGather && !issued.reduction;
  issued.ctas = isTransfer ? int(std::bit_ceil(unsigned(maxCtas))) : maxCtas;
  if (issued.isByCopyEngines)
    issued.ctas = 0;
  meeting->parts[size_t(rank)] = issued;
  machine().enqueue(issued.stream,
                    [this, meeting = meeting] { return tryToMeet(meeting); });
}

bool InProcessComm::tryToMakeWindow() {
  const Group::Window &window = group->windows[windowCalls - 1];
  if (window.ranks.size() < group->ranks)
    return false;
  // As NCCL does, it succeeds without a window if the connection has none.
  ncclWindow_t made = nullptr;
  if (faults.registration == RegistrationFault::LocalWindows) {
    made = reinterpret_cast<ncclWindow_t>(this);
    registrations.insert(this);
  } else if (faults.registration != RegistrationFault::NoWindows) {
    made = reinterpret_cast<ncclWindow_t>(&windowHandle);
    windows.insert(this);
  }
  *std::exchange(awaitedWindow, nullptr) = made;
  return true;
}

ncclResult_t InProcessComm::progress() {
  for (auto &[peer, where] : group->devices)
    if (where != device && faults.dead.count(where))
      return ncclRemoteError;
  if (group->devices.size() < group->ranks)
    return ncclInProgress;
  if (awaitedWindow && !tryToMakeWindow())
    return ncclInProgress;
  return ncclSuccess;
}

ncclResult_t registrationFault() {
  switch (faults.registration) {
  case RegistrationFault::None:
  case RegistrationFault::NoWindows:
  case RegistrationFault::LocalWindows:
    return ncclSuccess;
  case RegistrationFault::Refused:
    return ncclInvalidUsage;
  case RegistrationFault::SystemError:
    break;
  }
  return ncclSystemError;
}

/// NCCL chooses an algorithm by size, and connects the ranks for each at its
/// first use, which takes device memory, and a thread until 2.27.
ncclResult_t InProcessComm::prepare(cudaStream_t, const Part &part) {
  constexpr size_t bufferBytes = 1 << 20;
  size_t bytes = part.isAllGather ? part.gather.bytes
                 : part.reduction ? part.reduction->bytes
                                  : part.sends[0].bytes;
  if (connected.insert({part.isAllGather, std::bit_width(bytes)}).second) {
    machine().count("connections");
    countThread();
    buffers.push_back(machine().allocate(bufferBytes));
  }
  return ncclSuccess;
}

ncclResult_t InProcessComm::registerBuffer(void *address, size_t bytes,
                                           void **handle) {
  if (ncclResult_t fault = registrationFault(); fault != ncclSuccess)
    return fault;
  if (!machine().translate(address, bytes))
    return ncclInvalidArgument;
  *handle = this;
  registrations.insert(this);
  return ncclSuccess;
}

ncclResult_t InProcessComm::deregisterBuffer() {
  auto own = registrations.find(this);
  if (own == registrations.end())
    return ncclInvalidArgument;
  registrations.erase(own);
  return ncclSuccess;
}

ncclResult_t InProcessComm::registerWindow(void *address, size_t bytes,
                                           ncclWindow_t *window, int flags) {
  if (ncclResult_t fault = registrationFault(); fault != ncclSuccess)
    return fault;
  if (!machine().translate(address, bytes) || flags != NCCL_WIN_COLL_SYMMETRIC)
    return ncclInvalidArgument;
  // As NCCL 2.28.9 on an H200: ranks cannot map cudaMalloc's memory.
  if (!machine().isShared(address, bytes))
    return ncclUnhandledCudaError;
  Group::Window &call = group->windows[windowCalls++];
  if (!call.ranks.empty() && call.bytes != bytes)
    machine().fail("windows of different sizes");
  call.bytes = bytes;
  call.ranks.insert(rank);
  awaitedWindow = window;
  return ncclSuccess;
}

ncclResult_t InProcessComm::deregisterWindow() {
  return windows.erase(this) ? ncclSuccess : deregisterBuffer();
}

void InProcessComm::release() {
  for (auto &[number, meeting] : group->meetings)
    if (auto &own = meeting->parts[size_t(rank)])
      end(*own);
  live.erase(this);
  registrations.erase(this);
  windows.erase(this);
  for (void *buffer : buffers)
    machine().release(buffer);
  buffers.clear();
}

} // namespace

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

void fillCalls(int device) {
  Lock lock(machine().mutex);
  faults.full.insert(device);
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

int ncclVersion() { return faults.version; }

ncclUniqueId makeId() {
  ncclUniqueId id{};
  ++ids;
  std::memcpy(&id, &ids, sizeof(ids));
  return id;
}

ncclComm_t makeCommunicator(const ncclUniqueId &id, int ranks, int rank,
                            const ncclConfig_t &config) {
  if (faults.version < NCCL_VERSION(2, 28, 0) &&
      config.CTAPolicy == NCCL_CTA_POLICY_ZERO)
    return nullptr;
  if (config.nChannelsPerNetPeer != NCCL_CONFIG_UNDEF_INT) {
    std::string text = std::string(config.commName) + " with " +
                       std::to_string(config.nChannelsPerNetPeer) +
                       " channels to a peer";
    machine().count(text.c_str());
  }
  auto &group = groups[std::string(id.internal, sizeof(id.internal))];
  if (!group)
    group = std::make_shared<Group>();
  group->ranks = size_t(ranks);
  group->devices[rank] = deviceOfThread();
  auto *made = new InProcessComm(group, rank, deviceOfThread(), config);
  live.insert(made);
  return made;
}

void ended() {}

} // namespace fcdp::fake
