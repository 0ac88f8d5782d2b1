// SPDX-License-Identifier: Apache-2.0

#include "NcclCalls.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace fcdp::fake {

Lock enter(const char *entryPoint) {
  Lock lock(Machine::instance().mutex);
  Machine::instance().count(entryPoint);
  return lock;
}

void countThread() { Machine::instance().count("threads of NCCL"); }

} // namespace fcdp::fake

using namespace fcdp::fake;

namespace {

constexpr std::chrono::microseconds waitInterval(50);
/// NCCL would wait for ever.
constexpr std::chrono::seconds longestAbort(20);

/// State between ncclGroupStart and ncclGroupEnd.
thread_local bool inGroup = false;
thread_local ncclComm_t groupComm = nullptr;
thread_local cudaStream_t groupStream = nullptr;
thread_local Part groupPart;

ncclResult_t stateOf(ncclComm_t comm) {
  if (!comm->isLive)
    return comm->isAborted ? ncclInternalError : ncclInvalidArgument;
  if (ncclResult_t result = comm->progress(); result != ncclSuccess)
    return result;
  if (comm->pending.empty())
    return ncclSuccess;
  for (auto &[stream, part] : comm->pending)
    comm->put(stream, std::move(part));
  comm->pending.clear();
  return ncclInProgress;
}

void sleepWithout(Lock &lock) {
  lock.unlock();
  std::this_thread::sleep_for(waitInterval);
  lock.lock();
}

/// Waits for other ranks.
ncclResult_t waitFor(Lock &lock, ncclComm_t comm) {
  ncclResult_t result = stateOf(comm);
  for (; result == ncclInProgress; result = stateOf(comm))
    sleepWithout(lock);
  return result;
}

/// Ends a call in which ranks meet.
ncclResult_t finish(Lock &lock, ncclComm_t comm) {
  if (comm->isBlocking)
    return waitFor(lock, comm);
  countThread();
  return ncclInProgress;
}

/// Ends a call of a collective, or a group of them.
ncclResult_t call(Lock &lock, ncclComm_t comm, cudaStream_t stream, Part part) {
  while (comm->isLive && comm->isFull()) {
    (void)Machine::instance().isIdle(); // the device works on
    sleepWithout(lock);
  }
  ncclResult_t state = stateOf(comm);
  if (state != ncclSuccess)
    return state == ncclInProgress ? ncclInvalidUsage : state;
  if (ncclResult_t result = comm->prepare(stream, part); result != ncclSuccess)
    return result;
  if (comm->isBlocking) {
    if (ncclResult_t result = waitFor(lock, comm); result != ncclSuccess)
      return result;
    comm->put(stream, std::move(part));
    return ncclSuccess;
  }
  countThread();
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
  return ncclSuccess;
}

void end(ncclComm_t comm) {
  if (std::exchange(comm->isLive, false))
    comm->release();
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = ncclVersion();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  Lock lock = enter("ncclGetUniqueId");
  *id = makeId();
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
  ncclComm_t made =
      config ? makeCommunicator(id, ranks, rank, *config) : nullptr;
  if (!made)
    return ncclInvalidArgument;
  // Another thread may abort it from now on.
  std::atomic_ref<ncclComm_t>(*comm).store(made);
  return finish(lock, made);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  Lock lock = enter("ncclCommGetAsyncError");
  // The error of a communicator that blocks is about work, not about calls.
  if (comm->isBlocking && comm->isLive) {
    *state = comm->progress();
    if (*state == ncclInProgress)
      *state = ncclSuccess;
    return ncclSuccess;
  }
  *state = stateOf(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  Lock lock = enter("ncclCommAbort");
  comm->isAborted = true;
  end(comm);
  const auto deadline = std::chrono::steady_clock::now() + longestAbort;
  while (comm->waitsForDevice()) {
    sleepWithout(lock);
    if (std::chrono::steady_clock::now() > deadline) {
      Machine::instance().fail("an abort that waits for a collective which "
                               "does not end");
      break;
    }
  }
  lock.unlock();
  ended();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  Lock lock = enter("ncclCommFinalize");
  if (!comm->isLive)
    return ncclInvalidArgument;
  comm->leave();
  return finish(lock, comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Lock lock = enter("ncclCommDestroy");
  if (!comm->isLive)
    return ncclInvalidArgument;
  comm->leave();
  (void)waitFor(lock, comm);
  end(comm);
  lock.unlock();
  ended();
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *address,
                              size_t bytes, void **handle) {
  Lock lock = enter("ncclCommRegister");
  return comm->registerBuffer(address, bytes, handle);
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *) {
  Lock lock = enter("ncclCommDeregister");
  return comm->deregisterBuffer();
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address,
                                    size_t bytes, ncclWindow_t *window,
                                    int flags) {
  Lock lock = enter("ncclCommWindowRegister");
  ncclResult_t result = comm->registerWindow(address, bytes, window, flags);
  return result == ncclSuccess ? finish(lock, comm) : result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  Lock lock = enter("ncclCommWindowDeregister");
  return comm->deregisterWindow();
}

ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  Lock lock = enter("ncclMemAlloc");
  *address = Machine::instance().allocate(bytes, /*isShared=*/true);
  return *address ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *address) {
  Lock lock = enter("ncclMemFree");
  Machine &machine = Machine::instance();
  return machine.isShared(address, 0) && machine.release(address)
             ? ncclSuccess
             : ncclInvalidArgument;
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
  return call(lock, comm, stream, std::move(part));
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
  return call(lock, comm, stream, std::move(part));
}

ncclResult_t ncclAlltoAll(const void *in, void *out, size_t count,
                          ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  Lock lock = enter("ncclAlltoAll");
  if (type != ncclInt8)
    return ncclInvalidArgument;
  Part part;
  part.isByCopyEngines = comm->hasCopyEngines && comm->hasWindow();
  for (size_t peer = 0; peer < comm->ranks; ++peer) {
    part.sends.push_back({int(peer),
                          static_cast<const std::byte *>(in) + peer * count,
                          nullptr, count});
    part.recvs.push_back({int(peer), nullptr,
                          static_cast<std::byte *>(out) + peer * count, count});
  }
  return call(lock, comm, stream, std::move(part));
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
  return groupComm ? call(lock, groupComm, groupStream, std::move(groupPart))
                   : ncclSuccess;
}

} // extern "C"
