// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclGroup.h"
#include "cuda/Seconds.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

namespace fcdp {
namespace {

using Clock = std::chrono::steady_clock;

/// Time that a group has to end in good order before it is aborted.
constexpr double finalizeSeconds = 5;
/// NCCL enqueues a collective in microseconds once its ranks are connected. So
/// calls poll at once for this long, and at intervals after it.
constexpr std::chrono::microseconds spinTime(500);
constexpr std::chrono::microseconds pollInterval(50);

/// Returns whether a call on a non-blocking communicator has succeeded so far.
bool isFine(ncclResult_t result) {
  return result == ncclSuccess || result == ncclInProgress;
}

class NcclGroup final : public DeviceGroup {
public:
  explicit NcclGroup(const NcclGroupOptions &options);
  ~NcclGroup() override;

  Registration registerMemory(std::byte *base, size_t bytes) override;
  void connect(const WarmUp &warmUp, std::byte *memory, size_t bytes) override;
  std::optional<std::string> findError() override;
  void abort() noexcept override;

protected:
  void doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                   cudaStream_t stream) override;
  void doExchangeChunks(const std::byte *in, std::byte *out, size_t bytes,
                        cudaStream_t stream) override;
  void doReduceScatter(const std::byte *in, std::byte *out, size_t elements,
                       DType type, cudaStream_t stream) override;

private:
  ncclUniqueId shareId() const;
  ncclDataType_t typeOf(DType type) const;
  void join();
  void waitForFirst(cudaStream_t stream);
  /// Polls until the communicator has nothing in progress. Returns the final
  /// result, or ncclInProgress after `seconds`.
  ncclResult_t settle(ncclResult_t result, double seconds);
  void finish(ncclResult_t result, const char *call, double seconds);
  /// Like `finish`, but returns the library's text if it says that the call is
  /// not for this memory or communicator.
  std::string finishOrExplain(ncclResult_t result, const char *call);
  [[noreturn]] void fail(const char *call, const std::string &text,
                         FailureKind kind = FailureKind::Other) const;
  std::string textOf(ncclResult_t result) const;

  const NcclGroupOptions options;
  const NcclLibrary &nccl;
  ncclComm_t comm = nullptr; ///< null once aborted
  void *registration = nullptr;
  ncclWindow_t window = nullptr;
  /// Guards each call on the communicator: querying its errors may end what
  /// another thread's call began.
  std::mutex mutex;
};

NcclGroup::NcclGroup(const NcclGroupOptions &givenOptions)
    : DeviceGroup(givenOptions.worldRanks, givenOptions.rank),
      options(givenOptions), nccl(*options.nccl) {
  try {
    options.cuda->useDevice(options.device);
    join();
  } catch (...) {
    abort();
    throw;
  }
}

NcclGroup::~NcclGroup() {
  if (!comm)
    return;
  if (window)
    (void)settle(nccl.ncclCommWindowDeregister(comm, window), finalizeSeconds);
  if (registration)
    (void)nccl.ncclCommDeregister(comm, registration);
  // Finalizing waits for the peers, which may have ended.
  if (settle(nccl.ncclCommFinalize(comm), finalizeSeconds) == ncclSuccess)
    (void)nccl.ncclCommDestroy(comm);
  else
    abort();
}

ncclUniqueId NcclGroup::shareId() const {
  // Groups of one kind are distinguished by their first rank.
  std::string key = "nccl/" + options.name + "-" + std::to_string(worldRank(0));
  ncclUniqueId id;
  if (rank() == 0) {
    ncclResult_t result = nccl.ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      fail("ncclGetUniqueId", textOf(result));
    options.ids.set(key, std::string(id.internal, sizeof(id.internal)));
    return id;
  }
  std::string text = options.ids.get(key, options.joinSeconds);
  if (text.size() != sizeof(id.internal))
    fail("the communicator's id in the store",
         "expected " + std::to_string(sizeof(id.internal)) + " bytes, got " +
             std::to_string(text.size()));
  std::memcpy(id.internal, text.data(), text.size());
  return id;
}

void NcclGroup::join() {
  ncclUniqueId id = shareId();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  // For its own messages and traces.
  config.commName = options.name.c_str();
  if (options.mostCtas)
    config.maxCTAs = int(*options.mostCtas);
  finish(
      nccl.ncclCommInitRankConfig(&comm, int(size()), id, int(rank()), &config),
      "ncclCommInitRankConfig", options.joinSeconds);
}

void NcclGroup::connect(const WarmUp &warmUp, std::byte *memory, size_t bytes) {
  const CudaLibrary &cuda = *options.cuda;
  cudaStream_t stream = nullptr;
  cuda.check(
      cuda.cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
      "cudaStreamCreateWithPriority");
  std::shared_ptr<CUstream_st> destroyStream(
      stream, [&](cudaStream_t made) { (void)cuda.cudaStreamDestroy(made); });
  const size_t mostGathered = bytes / size(),
               mostExchanged = bytes / 2 / size();
  try {
    for (uint64_t wanted : warmUp.gathers) {
      size_t part = std::min<uint64_t>(wanted, mostGathered);
      if (part)
        doAllGather(memory + rank() * part, memory, part, stream);
      waitForFirst(stream);
    }
    for (uint64_t wanted : warmUp.exchanges) {
      size_t part = std::min<uint64_t>(wanted, mostExchanged);
      if (part)
        doExchangeChunks(memory, memory + size() * part, part, stream);
      waitForFirst(stream);
    }
    for (uint64_t wanted : warmUp.reductions) {
      size_t elements =
          std::min<uint64_t>(wanted, mostExchanged) / sizeof(float);
      if (elements)
        doReduceScatter(memory, memory + bytes / 2, elements, DType::F32,
                        stream);
      waitForFirst(stream);
    }
  } catch (...) {
    // Freeing memory waits for the device, which would wait for the peers.
    abort();
    throw;
  }
}

void NcclGroup::waitForFirst(cudaStream_t stream) {
  const CudaLibrary &cuda = *options.cuda;
  auto deadline =
      Clock::now() + std::chrono::duration<double>(options.joinSeconds);
  while (!cuda.isReady(cuda.cudaStreamQuery(stream), "cudaStreamQuery")) {
    if (auto error = findError())
      fail("the first collective", *error);
    if (Clock::now() > deadline)
      fail("the first collective",
           "timed out after " + spellSeconds(options.joinSeconds),
           FailureKind::TimedOut);
    std::this_thread::sleep_for(pollInterval);
  }
}

std::string NcclGroup::textOf(ncclResult_t result) const {
  const char *detail = nccl.ncclGetLastError(comm);
  std::string text = nccl.ncclGetErrorString(result);
  return detail && *detail ? text + " (" + detail + ")" : text;
}

void NcclGroup::fail(const char *call, const std::string &text,
                     FailureKind kind) const {
  throw DeviceGroupError("group " + options.name + ": " + call + " with " +
                             describePeers() + ": " + text,
                         kind);
}

ncclResult_t NcclGroup::settle(ncclResult_t result, double seconds) {
  const auto begin = Clock::now();
  auto now = begin;
  const std::chrono::duration<double> limit(seconds);
  for (; result == ncclInProgress && now - begin < limit; now = Clock::now()) {
    ncclResult_t asked;
    {
      std::lock_guard<std::mutex> lock(mutex);
      asked = nccl.ncclCommGetAsyncError(comm, &result);
    }
    if (asked != ncclSuccess)
      return asked;
    if (result == ncclInProgress && now - begin > spinTime)
      std::this_thread::sleep_for(pollInterval);
  }
  return result;
}

void NcclGroup::finish(ncclResult_t result, const char *call, double seconds) {
  result = settle(result, seconds);
  if (result == ncclInProgress)
    fail(call, "timed out after " + spellSeconds(seconds),
         FailureKind::TimedOut);
  if (result != ncclSuccess)
    fail(call, textOf(result));
}

std::string NcclGroup::finishOrExplain(ncclResult_t result, const char *call) {
  result = settle(result, options.callSeconds);
  if (result == ncclInvalidArgument || result == ncclInvalidUsage)
    return std::string(call) + ": " + textOf(result);
  finish(result, call, options.callSeconds);
  return "";
}

Registration NcclGroup::registerMemory(std::byte *base, size_t bytes) {
  Registration made;
  made.group = options.name;
  auto call = [&](auto entryPoint, auto... arguments) {
    std::lock_guard<std::mutex> lock(mutex);
    return entryPoint(comm, base, bytes, arguments...);
  };
  // Offsets into the window are equal on all ranks, because the plan is.
  made.problem = finishOrExplain(
      call(nccl.ncclCommWindowRegister, &window, NCCL_WIN_COLL_SYMMETRIC),
      "ncclCommWindowRegister");
  if (window) {
    made.kind = Registration::Kind::Window;
    return made;
  }
  // This succeeds without a window if the connection does not allow one.
  std::string problem = finishOrExplain(
      call(nccl.ncclCommRegister, &registration), "ncclCommRegister");
  if (registration)
    made.kind = Registration::Kind::Buffer;
  if (!problem.empty())
    made.problem += (made.problem.empty() ? "" : ", ") + problem;
  return made;
}

std::optional<std::string> NcclGroup::findError() {
  // If another thread is in a call, that call finds the errors.
  std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
  if (!lock || !comm)
    return std::nullopt;
  ncclResult_t state = ncclSuccess;
  ncclResult_t asked = nccl.ncclCommGetAsyncError(comm, &state);
  if (asked != ncclSuccess)
    state = asked;
  if (state == ncclSuccess || state == ncclInProgress)
    return std::nullopt;
  return textOf(state);
}

void NcclGroup::abort() noexcept {
  std::lock_guard<std::mutex> lock(mutex);
  if (!comm)
    return;
  (void)nccl.ncclCommAbort(comm);
  comm = nullptr;
  registration = nullptr;
  window = nullptr;
}

void NcclGroup::doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                            cudaStream_t stream) {
  if (!comm)
    fail("ncclAllGather", "the group was aborted");
  std::unique_lock<std::mutex> lock(mutex);
  ncclResult_t result =
      nccl.ncclAllGather(in, out, bytes, ncclInt8, comm, stream);
  lock.unlock();
  finish(result, "ncclAllGather", options.callSeconds);
}

void NcclGroup::doExchangeChunks(const std::byte *in, std::byte *out,
                                 size_t bytes, cudaStream_t stream) {
  if (!comm)
    fail("ncclSend", "the group was aborted");
  std::unique_lock<std::mutex> lock(mutex);
  ncclResult_t result = nccl.ncclGroupStart();
  // Go through the peers in the order rank + 1, rank + 2, ..., so that the
  // ranks do not all send to rank 0 first.
  for (uint32_t distance = 1; distance < size(); ++distance) {
    uint32_t to = (rank() + distance) % size();
    uint32_t from = (rank() + size() - distance) % size();
    if (isFine(result))
      result = nccl.ncclSend(in + to * bytes, bytes, ncclInt8, int(to), comm,
                             stream);
    if (isFine(result))
      result = nccl.ncclRecv(out + from * bytes, bytes, ncclInt8, int(from),
                             comm, stream);
  }
  // End the group even after an error; otherwise the calling thread would stay
  // in it.
  ncclResult_t ended = nccl.ncclGroupEnd();
  lock.unlock();
  finish(isFine(result) ? ended : result, "ncclSend and ncclRecv",
         options.callSeconds);
}

ncclDataType_t NcclGroup::typeOf(DType type) const {
  switch (type) {
  case DType::F16:
    return ncclFloat16;
  case DType::BF16:
    return ncclBfloat16;
  case DType::F32:
    return ncclFloat32;
  case DType::F64:
    return ncclFloat64;
  default:
    fail("ncclReduceScatter",
         std::string("cannot sum elements of type ") + name(type));
  }
}

void NcclGroup::doReduceScatter(const std::byte *in, std::byte *out,
                                size_t elements, DType type,
                                cudaStream_t stream) {
  if (!comm)
    fail("ncclReduceScatter", "the group was aborted");
  std::unique_lock<std::mutex> lock(mutex);
  ncclResult_t result = nccl.ncclReduceScatter(in, out, elements, typeOf(type),
                                               ncclSum, comm, stream);
  lock.unlock();
  finish(result, "ncclReduceScatter", options.callSeconds);
}

} // namespace

std::unique_ptr<DeviceGroup> makeNcclGroup(const NcclGroupOptions &options) {
  if (options.worldRanks.size() == 1)
    return std::make_unique<SingleDeviceGroup>(options.worldRanks[0]);
  return std::make_unique<NcclGroup>(options);
}

void shareDevice(const std::string &jobName, uint32_t worldRank) {
  std::string id = jobName + "-" + std::to_string(worldRank);
  setenv("NCCL_HOSTID", id.c_str(), 1);
}

} // namespace fcdp
