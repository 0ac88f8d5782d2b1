// SPDX-License-Identifier: Apache-2.0
//
// Calls CUDA and NCCL as a rule forbids, or as it allows. ContractsTest has the
// checker loaded in front of the libraries.
//   contract-case CASE CUDART NCCL [RANK FILE]
// The last two are those of two ranks, which exchange NCCL's id by the file.

#include "cuda/CudaLibrary.h"
#include "nccl/NcclLibrary.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <map>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace fcdp;

namespace {

constexpr size_t bytes = 4096;
/// Seconds in which the other rank must have called.
constexpr double longestWait = 20;

/// The parts that cases have in common: a stream, and memory of both kinds.
struct Case {
  std::shared_ptr<const CudaLibrary> cuda;
  std::string ncclPath, idFile;
  int rank = -1;
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  void *device = nullptr, *pinned = nullptr;

  void check(cudaError_t result) const { cuda->check(result, "a call"); }
  void setUp() {
    cuda->useDevice(0);
    for (cudaStream_t *one : {&stream, &other})
      check(cuda->cudaStreamCreateWithPriority(one, cudaStreamNonBlocking, 0));
    check(cuda->cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    check(cuda->cudaMalloc(&device, bytes));
    check(cuda->cudaHostAlloc(&pinned, bytes, cudaHostAllocPortable));
  }
  void copy(void *to, const void *from, size_t size = bytes) const {
    check(cuda->cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream));
  }
  void beginCapture() const {
    check(cuda->cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  }
  cudaGraphExec_t endCapture() const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check(cuda->cudaStreamEndCapture(stream, &graph));
    check(cuda->cudaGraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
  }
};

// --- ranges ---

void copiesPageable(Case &one) {
  static char pageable[bytes];
  one.copy(one.device, pageable);
}
void copiesPinned(Case &one) { one.copy(one.device, one.pinned); }
void copiesBeyond(Case &one) { one.copy(one.device, one.pinned, bytes + 1); }
void copiesFreed(Case &one) {
  one.check(one.cuda->cudaFree(one.device));
  one.copy(one.device, one.pinned);
}
void unmaps(Case &one, bool unregisters) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  one.check(
      one.cuda->cudaHostRegister(memory, bytes, cudaHostRegisterPortable));
  if (unregisters)
    one.check(one.cuda->cudaHostUnregister(memory));
  munmap(memory, bytes);
}

// --- lifetimes ---

void freesInFlight(Case &one) {
  one.copy(one.device, one.pinned);
  one.check(one.cuda->cudaFree(one.device));
}
void freesPinnedInFlight(Case &one) {
  one.copy(one.device, one.pinned);
  one.check(one.cuda->cudaFreeHost(one.pinned));
}
/// Another stream waits for the copy, and the host for the other stream.
void freesAfterAnEvent(Case &one) {
  one.copy(one.device, one.pinned);
  one.check(one.cuda->cudaEventRecord(one.event, one.stream));
  one.check(one.cuda->cudaStreamWaitEvent(one.other, one.event, 0));
  one.check(one.cuda->cudaStreamSynchronize(one.other));
  one.check(one.cuda->cudaFree(one.device));
}
/// The event is in front of the copy.
void freesAfterAnOlderEvent(Case &one) {
  one.check(one.cuda->cudaEventRecord(one.event, one.stream));
  one.copy(one.device, one.pinned);
  while (!one.cuda->isReady(one.cuda->cudaEventQuery(one.event), "a query"))
    std::this_thread::yield();
  one.check(one.cuda->cudaFree(one.device));
}
void launches(Case &one, bool frees) {
  one.beginCapture();
  one.copy(one.device, one.pinned);
  cudaGraphExec_t executable = one.endCapture();
  if (frees)
    one.check(one.cuda->cudaFree(one.device));
  one.check(one.cuda->cudaGraphLaunch(executable, one.stream));
}

// --- captures ---

void waitsInCapture(Case &one) {
  one.beginCapture();
  (void)one.cuda->cudaStreamSynchronize(one.stream);
}
void queriesInCapture(Case &one) {
  one.beginCapture();
  (void)one.cuda->cudaStreamQuery(one.stream);
}
void waitsForAnOutsideEvent(Case &one) {
  one.check(one.cuda->cudaEventRecord(one.event, one.other));
  one.beginCapture();
  (void)one.cuda->cudaStreamWaitEvent(one.stream, one.event, 0);
}
void endsAnotherStream(Case &one) {
  one.beginCapture();
  cudaGraph_t graph = nullptr;
  (void)one.cuda->cudaStreamEndCapture(one.other, &graph);
}
/// Other streams work as always, and memory may be allocated.
void capturesWell(Case &one) {
  one.beginCapture();
  one.check(one.cuda->cudaEventRecord(one.event, one.other));
  void *more = nullptr;
  one.check(one.cuda->cudaMalloc(&more, bytes));
  one.copy(one.device, one.pinned);
  cudaGraphExec_t executable = one.endCapture();
  one.check(one.cuda->cudaGraphLaunch(executable, one.stream));
}

// --- NCCL ---

/// A communicator, and an arena that it has registered.
struct Ranks {
  Case &one;
  const int rank, ranks;
  std::shared_ptr<const NcclLibrary> nccl;
  ncclComm_t comm = nullptr;
  void *registration = nullptr;
  char *arena = nullptr;

  explicit Ranks(Case &given, bool isBlocking = false)
      : one(given), rank(given.rank < 0 ? 0 : given.rank),
        ranks(given.rank < 0 ? 1 : 2), nccl(NcclLibrary::load(given.ncclPath)) {
    // NCCL wants ranks that share a device to be on different machines.
    setenv("NCCL_HOSTID", std::to_string(rank).c_str(), 1);
    ncclUniqueId id = shareId();
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = isBlocking;
    settle(nccl->ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
    check(nccl->ncclMemAlloc(reinterpret_cast<void **>(&arena), 4 * bytes));
    settle(nccl->ncclCommRegister(comm, arena, 2 * bytes, &registration));
  }
  void check(ncclResult_t result) const {
    if (result != ncclSuccess)
      throw std::runtime_error(nccl->ncclGetErrorString(result));
  }
  void settle(ncclResult_t result) const {
    if (result != ncclInProgress)
      return check(result);
    while (result == ncclInProgress)
      check(nccl->ncclCommGetAsyncError(comm, &result));
    check(result);
  }
  ncclUniqueId shareId() const {
    ncclUniqueId id;
    if (rank == 0) {
      check(nccl->ncclGetUniqueId(&id));
      if (ranks > 1) {
        std::string part = one.idFile + ".part";
        std::ofstream(part).write(id.internal, sizeof(id.internal));
        rename(part.c_str(), one.idFile.c_str());
      }
      return id;
    }
    while (access(one.idFile.c_str(), R_OK) != 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ifstream(one.idFile).read(id.internal, sizeof(id.internal));
    return id;
  }
  ncclResult_t gather(const void *in, void *out, size_t count) const {
    return nccl->ncclAllGather(in, out, count, ncclInt8, comm, one.stream);
  }
  void wait() const {
    auto begin = std::chrono::steady_clock::now();
    while (!one.cuda->isReady(one.cuda->cudaStreamQuery(one.stream), "query"))
      if (std::chrono::steady_clock::now() - begin >
          std::chrono::duration<double>(longestWait))
        throw std::runtime_error("the collective does not end");
  }
  void end() {
    check(nccl->ncclCommDeregister(comm, registration));
    settle(nccl->ncclCommFinalize(comm));
    check(nccl->ncclCommDestroy(comm));
    check(nccl->ncclMemFree(arena));
  }
};

void gathersWell(Case &one) {
  Ranks ranks(one);
  ranks.settle(ranks.gather(ranks.arena, ranks.arena + bytes, 64));
  ranks.wait();
  ranks.end();
}
/// Calls of a communicator that blocks end at once.
void gathersTwiceBlocking(Case &one) {
  Ranks ranks(one, /*isBlocking=*/true);
  for (int i = 0; i < 2; ++i)
    ranks.check(ranks.gather(ranks.arena, ranks.arena + bytes, 64));
  ranks.wait();
  ranks.end();
}
void gathersBeyondTheRegistration(Case &one) {
  Ranks ranks(one);
  (void)ranks.gather(ranks.arena, ranks.arena + 3 * bytes, 64);
}
void freesRegistered(Case &one) {
  Ranks ranks(one);
  (void)ranks.nccl->ncclMemFree(ranks.arena);
}
void deregistersInFlight(Case &one) {
  Ranks ranks(one);
  ranks.settle(ranks.gather(ranks.arena, ranks.arena + bytes, 64));
  (void)ranks.nccl->ncclCommDeregister(ranks.comm, ranks.registration);
}
/// Without asking whether the first call has ended. A library may end it at
/// once.
void gathersTwice(Case &one) {
  Ranks ranks(one);
  for (int i = 0; i < 2; ++i)
    if (ranks.gather(ranks.arena, ranks.arena + bytes, 64) != ncclInProgress)
      throw std::runtime_error("the call has ended at once");
}
void gathersOtherSizes(Case &one) {
  Ranks ranks(one);
  ranks.settle(
      ranks.gather(ranks.arena, ranks.arena + bytes, one.rank ? 128 : 64));
  ranks.wait();
}
void sendsOtherSizes(Case &one) {
  Ranks ranks(one);
  int peer = 1 - one.rank;
  size_t count = 64 + size_t(one.rank);
  ranks.check(ranks.nccl->ncclGroupStart());
  (void)ranks.nccl->ncclSend(ranks.arena, count, ncclInt8, peer, ranks.comm,
                             one.stream);
  (void)ranks.nccl->ncclRecv(ranks.arena + bytes, count, ncclInt8, peer,
                             ranks.comm, one.stream);
  ranks.settle(ranks.nccl->ncclGroupEnd());
  ranks.wait();
}
void oneEndsTooEarly(Case &one) {
  Ranks ranks(one);
  if (one.rank)
    return ranks.end();
  ranks.settle(ranks.gather(ranks.arena, ranks.arena + bytes, 64));
  ranks.wait();
}

/// The next munmap after this program's is the checker's. The C library's would
/// be found if dlsym took the checker for the caller.
void looksPastItself(Case &) {
  Dl_info info;
  void *found = dlsym(RTLD_NEXT, "munmap");
  if (!found || !dladdr(found, &info) ||
      !std::strstr(info.dli_fname, "libfcdp_contracts"))
    throw std::runtime_error("expected the checker's munmap, found " +
                             std::string(info.dli_fname));
}

const std::map<std::string, std::function<void(Case &)>> cases = {
    {"copies-pageable", copiesPageable},
    {"copies-pinned", copiesPinned},
    {"copies-beyond", copiesBeyond},
    {"copies-freed", copiesFreed},
    {"unmaps-registered", [](Case &one) { unmaps(one, false); }},
    {"unmaps-unregistered", [](Case &one) { unmaps(one, true); }},
    {"frees-in-flight", freesInFlight},
    {"frees-pinned-in-flight", freesPinnedInFlight},
    {"frees-after-an-event", freesAfterAnEvent},
    {"frees-after-an-older-event", freesAfterAnOlderEvent},
    {"launches", [](Case &one) { launches(one, false); }},
    {"launches-freed", [](Case &one) { launches(one, true); }},
    {"waits-in-capture", waitsInCapture},
    {"queries-in-capture", queriesInCapture},
    {"waits-for-an-outside-event", waitsForAnOutsideEvent},
    {"ends-another-stream", endsAnotherStream},
    {"captures-well", capturesWell},
    {"gathers-well", gathersWell},
    {"gathers-twice-blocking", gathersTwiceBlocking},
    {"gathers-beyond-the-registration", gathersBeyondTheRegistration},
    {"frees-registered", freesRegistered},
    {"deregisters-in-flight", deregistersInFlight},
    {"gathers-twice", gathersTwice},
    {"gathers-other-sizes", gathersOtherSizes},
    {"sends-other-sizes", sendsOtherSizes},
    {"one-ends-too-early", oneEndsTooEarly},
    {"looks-past-itself", looksPastItself},
};

} // namespace

int main(int argc, char **argv) {
  if ((argc != 4 && argc != 6) || !cases.count(argv[1])) {
    std::fprintf(stderr, "expected CASE CUDART NCCL [RANK FILE]\n");
    return 2;
  }
  try {
    Case one;
    one.cuda = CudaLibrary::load(argv[2]);
    one.ncclPath = argv[3];
    if (argc == 6) {
      one.rank = std::atoi(argv[4]);
      one.idFile = argv[5];
    }
    one.setUp();
    cases.at(argv[1])(one);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "contract-case: %s\n", error.what());
    return 1;
  }
  return 0;
}
