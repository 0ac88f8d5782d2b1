// SPDX-License-Identifier: Apache-2.0

#include "nccl/NcclGroup.h"

#include "core/LibrarySettings.h"
#include "cuda/Seconds.h"
#include "nccl/BoundedCall.h"
#include "nccl/Communicator.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fcdp {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds for a group to end regularly before it is aborted, and for a call to
/// return after that.
constexpr double finalizeSeconds = 5;
/// Interval at which the first collectives are polled.
constexpr std::chrono::microseconds pollInterval(50);
/// The least rate, in bytes per second, at which a rank is assumed to send the
/// first collectives: less than that of a network of 100 Mb/s.
constexpr double leastRate = 1e7;

class NcclGroup final : public DeviceGroup {
public:
  explicit NcclGroup(const NcclGroupOptions &options);
  ~NcclGroup() override;

  Registration registerMemory(std::byte *base, size_t bytes) override;
  void connect(const WarmUp &warmUp, std::byte *memory, size_t bytes) override;
  std::optional<std::string> findError() override;
  void abort() noexcept override { comm->abort(); }

protected:
  void doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                   cudaStream_t stream) override;
  void doExchangeChunks(const std::byte *in, std::byte *out, size_t bytes,
                        cudaStream_t stream) override;
  void doReduceScatter(const std::byte *in, std::byte *out, size_t elements,
                       DType type, cudaStream_t stream) override;

private:
  using Call = std::function<ncclResult_t(Communicator &)>;

  ncclUniqueId shareId() const;
  ncclDataType_t typeOf(DType type) const;
  /// Makes a call that blocks until the peers make theirs. Returns its result.
  /// After more than `seconds`, aborts the communicator and throws. `name` is
  /// for the message.
  ncclResult_t callWithPeers(const char *name, double seconds, Call call);
  /// Runs a collective to its end, which sends `bytes` to each peer. `call`
  /// enqueues it on the stream.
  void runFirst(cudaStream_t stream, size_t bytes, Call call);
  void check(ncclResult_t result, const char *call) const;
  /// Does the same as `check`, but returns the library's text if the call does
  /// not support this memory or communicator.
  std::string checkOrExplain(ncclResult_t result, const char *call) const;
  DeviceGroupError error(const char *call, const std::string &text,
                         FailureKind kind = FailureKind::Other) const;
  DeviceGroupError timedOut(const char *call, double seconds) const;
  [[noreturn]] void fail(const char *call, const std::string &text) const {
    throw error(call, text);
  }

  const NcclGroupOptions options;
  const NcclLibrary &nccl;
  /// Calls that have not returned at a timeout own it, too.
  const std::shared_ptr<Communicator> comm;
};

std::shared_ptr<Communicator>
makeCommunicator(const NcclGroupOptions &options) {
  CommunicatorOptions made;
  made.nccl = options.nccl;
  made.cuda = options.cuda;
  made.device = options.device;
  made.ranks = uint32_t(options.worldRanks.size());
  made.rank = options.rank;
  made.name = options.name;
  made.mostCtas = options.mostCtas;
  made.exchangesByCopyEngines = options.exchangesByCopyEngines;
  made.channelsPerNetPeer = options.channelsPerNetPeer;
  return std::make_shared<Communicator>(made);
}

NcclGroup::NcclGroup(const NcclGroupOptions &givenOptions)
    : DeviceGroup(givenOptions.worldRanks, givenOptions.rank),
      options(givenOptions), nccl(*options.nccl),
      comm(makeCommunicator(options)) {
  options.cuda->useDevice(options.device);
  ncclUniqueId id = shareId();
  ncclResult_t result =
      callWithPeers("ncclCommInitRankConfig", options.joinSeconds,
                    [id](Communicator &own) { return own.join(id); });
  if (result != ncclSuccess) {
    std::string text = comm->textOf(result);
    abort();
    fail("ncclCommInitRankConfig", text);
  }
}

NcclGroup::~NcclGroup() {
  if (comm->isEnded())
    return;
  BoundedCall destroy([own = comm] {
    own->useDevice();
    return own->destroy();
  });
  // This waits for the peers, which may have ended.
  if (destroy.hasEnded(finalizeSeconds))
    return;
  abort();
  (void)destroy.hasEnded(finalizeSeconds);
}

ncclUniqueId NcclGroup::shareId() const {
  // Groups of one kind are distinguished by their first rank.
  std::string key = "nccl/" + options.name + "-" + std::to_string(worldRank(0));
  ncclUniqueId id;
  if (rank() == 0) {
    ncclResult_t result = nccl.ncclGetUniqueId(&id);
    if (result != ncclSuccess)
      fail("ncclGetUniqueId", comm->textOf(result));
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

ncclResult_t NcclGroup::callWithPeers(const char *name, double seconds,
                                      Call call) {
  BoundedCall bounded([own = comm, call = std::move(call)] {
    own->useDevice();
    return call(*own);
  });
  if (bounded.hasEnded(seconds))
    return bounded.result();
  const DeviceGroupError late = timedOut(name, seconds);
  if (options.onBlocked)
    options.onBlocked(late);
  // Only the abort makes NCCL return.
  abort();
  (void)bounded.hasEnded(finalizeSeconds);
  throw late;
}

void NcclGroup::connect(const WarmUp &warmUp, std::byte *memory, size_t bytes) {
  const CudaLibrary &cuda = *options.cuda;
  cudaStream_t stream = nullptr;
  cuda.check(
      cuda.cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0),
      "cudaStreamCreateWithPriority");
  std::shared_ptr<CUstream_st> destroyStream(
      stream, [&](cudaStream_t made) { (void)cuda.cudaStreamDestroy(made); });
  const size_t ownRank = rank(), mostGathered = bytes / size(),
               mostExchanged = bytes / 2 / size();
  try {
    for (uint64_t wanted : warmUp.gathers)
      if (size_t part = std::min<uint64_t>(wanted, mostGathered))
        runFirst(stream, part, [=](Communicator &own) {
          return own.allGather(memory + ownRank * part, memory, part, stream);
        });
    for (uint64_t wanted : warmUp.exchanges)
      if (size_t part = std::min<uint64_t>(wanted, mostExchanged))
        runFirst(stream, part, [=](Communicator &own) {
          return own.exchangeChunks(memory, memory + bytes / 2, part, stream);
        });
    for (uint64_t wanted : warmUp.reductions)
      if (size_t elements =
              std::min<uint64_t>(wanted, mostExchanged) / sizeof(float))
        runFirst(stream, elements * sizeof(float), [=](Communicator &own) {
          return own.reduceScatter(memory, memory + bytes / 2, elements,
                                   ncclFloat32, stream);
        });
  } catch (...) {
    // Freeing memory waits for the device, which would wait for the peers.
    abort();
    throw;
  }
}

void NcclGroup::runFirst(cudaStream_t stream, size_t bytes, Call call) {
  constexpr const char *name = "the first collective";
  const CudaLibrary &cuda = *options.cuda;
  const double sending = double(bytes) * (size() - 1) / leastRate;
  // Tenths of a second, for the message.
  const double seconds = options.joinSeconds + std::round(10 * sending) / 10;
  auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  check(callWithPeers(name, seconds, std::move(call)), name);
  while (!cuda.isReady(cuda.cudaStreamQuery(stream), "cudaStreamQuery")) {
    if (auto error = findError())
      fail(name, *error);
    if (Clock::now() > deadline)
      throw timedOut(name, seconds);
    std::this_thread::sleep_for(pollInterval);
  }
}

DeviceGroupError NcclGroup::error(const char *call, const std::string &text,
                                  FailureKind kind) const {
  return DeviceGroupError("group " + options.name + ": " + call + " with " +
                              describePeers() + ": " + text,
                          kind);
}

DeviceGroupError NcclGroup::timedOut(const char *call, double seconds) const {
  return error(call, "timed out after " + spellSeconds(seconds),
               FailureKind::TimedOut);
}

void NcclGroup::check(ncclResult_t result, const char *call) const {
  if (result != ncclSuccess)
    fail(call, comm->textOf(result));
}

std::string NcclGroup::checkOrExplain(ncclResult_t result,
                                      const char *call) const {
  if (result == ncclInvalidArgument || result == ncclInvalidUsage)
    return std::string(call) + ": " + comm->textOf(result);
  check(result, call);
  return "";
}

Registration NcclGroup::registerMemory(std::byte *base, size_t bytes) {
  Registration made;
  made.group = options.name;
  auto call = [&](const char *name,
                  ncclResult_t (Communicator::*entry)(std::byte *, size_t)) {
    return checkOrExplain(callWithPeers(name, options.joinSeconds,
                                        [=](Communicator &own) {
                                          return (own.*entry)(base, bytes);
                                        }),
                          name);
  };
  made.problem = call("ncclCommWindowRegister", &Communicator::registerWindow);
  // That succeeds without a window if the connection does not allow one.
  std::string problem;
  if (!comm->hasWindow() || comm->mayBeLocal())
    problem = call("ncclCommRegister", &Communicator::registerBuffer);
  if (comm->hasWindow()) {
    made.kind = Registration::Kind::Window;
    return made;
  }
  if (comm->hasBuffer())
    made.kind = Registration::Kind::Buffer;
  if (!problem.empty())
    made.problem += (made.problem.empty() ? "" : ", ") + problem;
  return made;
}

std::optional<std::string> NcclGroup::findError() {
  std::optional<ncclResult_t> error = comm->findError();
  return error ? std::optional(comm->textOf(*error)) : std::nullopt;
}

void NcclGroup::doAllGather(const std::byte *in, std::byte *out, size_t bytes,
                            cudaStream_t stream) {
  check(comm->allGather(in, out, bytes, stream), "ncclAllGather");
}

void NcclGroup::doExchangeChunks(const std::byte *in, std::byte *out,
                                 size_t bytes, cudaStream_t stream) {
  check(comm->exchangeChunks(in, out, bytes, stream), "the exchange of chunks");
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
  check(comm->reduceScatter(in, out, elements, typeOf(type), stream),
        "ncclReduceScatter");
}

} // namespace

std::unique_ptr<DeviceGroup> makeNcclGroup(const NcclGroupOptions &options) {
  if (options.worldRanks.size() == 1)
    return std::make_unique<SingleDeviceGroup>(options.worldRanks[0]);
  return std::make_unique<NcclGroup>(options);
}

void shareDevice(const std::string &jobName, uint32_t worldRank) {
  std::string id = jobName + "-" + std::to_string(worldRank);
  if (!setLibrarySetting("NCCL_HOSTID", id))
    throw std::runtime_error(
        "several ranks have the same GPU, which NCCL refuses for ranks of one "
        "machine: set NCCL_HOSTID to a different value for each rank, such as "
        "its number, before the program starts");
}

} // namespace fcdp
