// SPDX-License-Identifier: Apache-2.0
//
// The calls of libnccl.

#include "Checker.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

using namespace fcdp::contracts;

namespace {

/// A group of calls, which end together.
thread_local int groupDepth = 0;
thread_local std::map<Handle, Handle> groupStreams;

/// Windows that are being made: the library writes their handles later. Guarded
/// by the checker's mutex.
struct AwaitedWindow {
  ncclWindow_t *window;
  const void *base;
  size_t bytes;
};
std::map<Handle, AwaitedWindow> awaitedWindows;

uint64_t bytesOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4
                                                                          : 1;
  }
}

/// FNV-1a, which suffices to tell the communicators of a job apart.
std::string nameOf(const ncclUniqueId &id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (char byte : id.internal)
    hash = (hash ^ uint8_t(byte)) * 0x100000001b3;
  return describe(reinterpret_cast<Handle>(hash)).substr(2);
}

/// Checks a call's memory and puts it on the stream.
void issue(Checker &rules, const char *name, ncclComm_t comm,
           cudaStream_t stream,
           std::initializer_list<std::pair<const void *, uint64_t>> memory) {
  ++rules.counts.collectives;
  // Calls of one group follow each other without waiting.
  if (!groupDepth)
    rules.order.requireSettled(comm);
  Use use{name, {}, comm};
  for (auto [address, bytes] : memory)
    if (bytes) {
      use.memory.push_back(rules.memory.requireLive(address, bytes));
      rules.memory.requireRegistered(comm, use.memory.back());
    }
  rules.issue(handleOf(stream), std::move(use));
}

ncclResult_t returned(Checker &rules, std::unique_lock<std::mutex> &lock,
                      ncclComm_t comm, cudaStream_t stream,
                      ncclResult_t result) {
  lock.lock();
  if (groupDepth)
    groupStreams[comm] = handleOf(stream);
  else if (result == ncclInProgress)
    rules.order.inProgress(comm, handleOf(stream));
  return result;
}

void forget(Checker &rules, ncclComm_t comm) {
  rules.work.dropUses(comm);
  rules.memory.dropRegistrations(comm);
  rules.order.forget(comm);
  awaitedWindows.erase(comm);
}

void deregister(Checker &rules, Handle comm, Handle registration) {
  if (auto span = rules.memory.registration(comm, registration)) {
    rules.work.requireUnusedBy(comm, *span);
    rules.memory.deregistered(comm, registration);
  }
}

} // namespace

extern "C" {

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  FCDP_CHECK_CALL(ncclCommInitRankConfig);
  lock.unlock();
  ncclResult_t result = real(comm, ranks, id, rank, config);
  if (result == ncclSuccess || result == ncclInProgress) {
    lock.lock();
    rules.order.joined(*comm, nameOf(id), ranks, rank);
  }
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id,
                              int rank) {
  FCDP_CHECK_CALL(ncclCommInitRank);
  lock.unlock();
  ncclResult_t result = real(comm, ranks, id, rank);
  if (result == ncclSuccess) {
    lock.lock();
    rules.order.joined(*comm, nameOf(id), ranks, rank);
  }
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  FCDP_CHECK_CALL(ncclCommGetAsyncError);
  lock.unlock();
  ncclResult_t result = real(comm, state);
  if (result != ncclSuccess || *state == ncclInProgress)
    return result;
  lock.lock();
  rules.order.settled(comm);
  auto found = awaitedWindows.find(comm);
  if (found == awaitedWindows.end())
    return result;
  auto [window, base, bytes] = found->second;
  // Without a window the library works as if nothing were registered.
  if (*state == ncclSuccess && *window)
    rules.memory.registered(comm, *window, base, bytes);
  awaitedWindows.erase(found);
  return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  FCDP_CHECK_CALL(ncclCommAbort);
  forget(rules, comm);
  lock.unlock();
  return real(comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  FCDP_CHECK_CALL(ncclCommFinalize);
  rules.order.requireSettled(comm);
  rules.order.ended(comm);
  lock.unlock();
  return real(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  FCDP_CHECK_CALL(ncclCommDestroy);
  rules.order.ended(comm);
  forget(rules, comm);
  lock.unlock();
  return real(comm);
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *address,
                              size_t bytes, void **handle) {
  FCDP_CHECK_CALL(ncclCommRegister);
  rules.memory.requireLive(address, bytes);
  lock.unlock();
  ncclResult_t result = real(comm, address, bytes, handle);
  if ((result == ncclSuccess || result == ncclInProgress) && *handle) {
    lock.lock();
    rules.memory.registered(comm, *handle, address, bytes);
  }
  return result;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle) {
  FCDP_CHECK_CALL(ncclCommDeregister);
  deregister(rules, comm, handle);
  lock.unlock();
  return real(comm, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *address,
                                    size_t bytes, ncclWindow_t *window,
                                    int flags) {
  FCDP_CHECK_CALL(ncclCommWindowRegister);
  rules.memory.requireLive(address, bytes);
  lock.unlock();
  ncclResult_t result = real(comm, address, bytes, window, flags);
  lock.lock();
  if (result == ncclInProgress)
    awaitedWindows[comm] = {window, address, bytes};
  else if (result == ncclSuccess && *window)
    rules.memory.registered(comm, *window, address, bytes);
  return result;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  FCDP_CHECK_CALL(ncclCommWindowDeregister);
  deregister(rules, comm, window);
  lock.unlock();
  return real(comm, window);
}

ncclResult_t ncclMemAlloc(void **address, size_t bytes) {
  FCDP_CHECK_CALL(ncclMemAlloc);
  lock.unlock();
  ncclResult_t result = real(address, bytes);
  if (result == ncclSuccess) {
    lock.lock();
    rules.memory.made(MemoryKind::Device, *address, bytes);
  }
  return result;
}

ncclResult_t ncclMemFree(void *address) {
  FCDP_CHECK_CALL(ncclMemFree);
  rules.release(address, false);
  lock.unlock();
  return real(address);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclAllGather);
  uint64_t bytes = count * bytesOf(type), ranks = rules.order.ranksOf(comm);
  issue(rules, "ncclAllGather", comm, stream,
        {{in, bytes}, {out, bytes * ranks}});
  rules.order.called(comm, {CollectiveCall::AllGather, uint32_t(type), count});
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(in, out, count, type, comm, stream));
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t operation,
                               ncclComm_t comm, cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclReduceScatter);
  uint64_t bytes = count * bytesOf(type), ranks = rules.order.ranksOf(comm);
  issue(rules, "ncclReduceScatter", comm, stream,
        {{in, bytes * ranks}, {out, bytes}});
  rules.order.called(comm, {CollectiveCall::ReduceScatter, uint32_t(type),
                            count, uint64_t(operation)});
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(in, out, count, type, operation, comm, stream));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t operation,
                           ncclComm_t comm, cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclAllReduce);
  uint64_t bytes = count * bytesOf(type);
  issue(rules, "ncclAllReduce", comm, stream, {{in, bytes}, {out, bytes}});
  rules.order.called(comm, {CollectiveCall::AllReduce, uint32_t(type), count,
                            uint64_t(operation)});
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(in, out, count, type, operation, comm, stream));
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclBroadcast);
  uint64_t bytes = count * bytesOf(type);
  // Only the root's input is read.
  issue(rules, "ncclBroadcast", comm, stream, {{out, bytes}});
  rules.order.called(
      comm, {CollectiveCall::Broadcast, uint32_t(type), count, uint64_t(root)});
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(in, out, count, type, root, comm, stream));
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclSend);
  issue(rules, "ncclSend", comm, stream, {{from, count * bytesOf(type)}});
  rules.order.sent(comm, peer, count, uint32_t(type));
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(from, count, type, peer, comm, stream));
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  FCDP_CHECK_CALL(ncclRecv);
  issue(rules, "ncclRecv", comm, stream, {{to, count * bytesOf(type)}});
  rules.order.received(comm, peer, count, uint32_t(type));
  lock.unlock();
  return returned(rules, lock, comm, stream,
                  real(to, count, type, peer, comm, stream));
}

ncclResult_t ncclGroupStart() {
  FCDP_CHECK_CALL(ncclGroupStart);
  lock.unlock();
  ++groupDepth;
  return real();
}

ncclResult_t ncclGroupEnd() {
  FCDP_CHECK_CALL(ncclGroupEnd);
  lock.unlock();
  ncclResult_t result = real();
  if (--groupDepth > 0)
    return result;
  lock.lock();
  if (result == ncclInProgress)
    for (auto [comm, stream] : groupStreams)
      rules.order.inProgress(comm, stream);
  groupStreams.clear();
  return result;
}

} // extern "C"
