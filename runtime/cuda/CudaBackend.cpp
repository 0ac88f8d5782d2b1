// SPDX-License-Identifier: Apache-2.0

#include "cuda/CudaBackend.h"
#include "core/FirstFailure.h"
#include "cuda/CollectiveWatch.h"
#include "cuda/EventClock.h"
#include "cuda/HostWork.h"
#include "cuda/KernelImage.h"
#include "cuda/MessageKernels.h"
#include "cuda/StreamCapture.h"
#include "cuda/StreamTable.h"

#include <array>
#include <chrono>
#include <thread>
#include <utility>

namespace fcdp {
namespace {

/// Longest sleep in a wait for a stream. The wait polls at once at first, then
/// at growing intervals.
constexpr std::chrono::microseconds longestSleep(200);

/// Makes the device current before the members after it are constructed.
std::shared_ptr<const CudaLibrary>
withDevice(const CudaBackendOptions &options) {
  options.cuda->useDevice(options.device);
  return options.cuda;
}

CollectiveWatchOptions watchOptions(const CudaBackendOptions &options,
                                    HostWork &hostWork) {
  return {options.cuda,
          options.device,
          options.worldRank,
          options.collectiveSeconds,
          options.noticeSeconds,
          options.onBlocked,
          [&] { hostWork.release(); }};
}

/// For thread-safety, see `Backend`.
class CudaBackendImpl final : public CudaBackend {
public:
  explicit CudaBackendImpl(CudaBackendOptions &&options)
      : cuda(withDevice(options)), deviceNumber(options.device),
        worldRank(options.worldRank), ranksPerNode(options.ranksPerNode),
        reducesByLibrary(options.reducesByLibrary), control(options.control),
        host(std::move(options.host)),
        device(cuda, options.deviceBytes,
               options.memory.allocate ? options.memory : cudaMemory(cuda)),
        kernels(cuda), messageKernels(kernels),
        streams(cuda, options.numEvents), axes(std::move(options.axes)),
        all(std::move(options.all)), hostWork(cuda, firstFailure),
        watch(watchOptions(options, hostWork), firstFailure) {
    if (device.size())
      connectGroups(options.messages);
    forEachGroup([&](AxisId, DeviceGroup &group) { watch.add(group); });
    if (all)
      watch.add(*all);
    if (options.recorder)
      options.recorder->measureBy(clock.emplace(cuda, deviceNumber, streams));
  }
  ~CudaBackendImpl() override;

  std::byte *deviceBase() override { return device.base(); }
  std::shared_ptr<std::byte> extendDevice(uint64_t from, uint64_t to) override;
  std::byte *hostBase() override { return host.base(); }
  cudaStream_t stream(StreamId stream) override { return streams.at(stream); }
  CudaLibrary::Memory memory() override {
    useDevice();
    return cuda->memory();
  }
  const std::vector<Registration> &registrations() const override {
    return registered;
  }
  std::unique_ptr<StreamClock> makeClock() override {
    return std::make_unique<EventClock>(cuda, deviceNumber, streams);
  }
  std::unique_ptr<GraphCapture> makeCapture() override {
    return std::make_unique<StreamCapture>(cuda, deviceNumber,
                                           streams.at(StreamId::Compute));
  }

  void copy(StreamId stream, void *dst, const void *src, size_t bytes) override;
  void call(StreamId stream, HostTask &task, size_t bytes) override;
  uint32_t start(StreamId stream, HostTask &task) override;
  void await(StreamId stream, uint32_t number) override;
  void unpack(const PackedLayout &layout, const std::byte *packed, DType type,
              std::byte *out) override;
  void add(StreamId stream, float *sum, const float *part,
           size_t elements) override;
  void allGather(const Collective &collective) override;
  void reduceScatter(const Collective &collective) override;
  void sumOverRanks(double *number, double *scratch, const char *what) override;

  void record(uint32_t event, StreamId stream) override;
  void wait(uint32_t event, StreamId stream) override;
  void waitOnHost(uint32_t event) override;
  void synchronize() override;

  bool failed() const override { return firstFailure.failed(); }
  void fail(const std::string &message) override { firstFailure.set(message); }
  void abort() noexcept override;
  std::string failure() const override { return firstFailure.message(); }
  FailureKind failureKind() const override { return firstFailure.kind(); }
  ByteCounters counters() const override;

private:
  void connectGroups(const std::array<WarmUp, kNumAxes> &messages);
  /// Calls `visit(axis, group)` for each group.
  template <typename Visit>
  void forEachGroup(Visit visit) const {
    for (size_t i = 0; i < kNumAxes; ++i)
      for (DeviceGroup *group : {axes[i].gather.get(), axes[i].reduce.get()})
        if (group)
          visit(static_cast<AxisId>(i), *group);
  }
  static DeviceGroup &require(const std::unique_ptr<DeviceGroup> &group,
                              const Collective &collective);
  void useDevice();
  /// Runs `enqueue` with the stream unless anything has failed. Stores an
  /// exception as the failure, prefixed with `what` (or the stream's name if
  /// that is null) and the rank.
  template <typename Enqueue>
  void issue(StreamId stream, const char *what, Enqueue enqueue);
  template <typename Enqueue>
  void issueCollective(StreamId stream, const char *what, DeviceGroup &group,
                       Enqueue enqueue);
  void enqueueGather(const Collective &collective, DeviceGroup &group,
                     cudaStream_t on);
  void enqueueReduction(const Collective &collective, DeviceGroup &group,
                        cudaStream_t on);
  void enqueueCopy(void *dst, const void *src, size_t bytes, cudaStream_t on);
  bool isIdle();
  /// Polls until `isDone()` or any failure.
  template <typename IsDone>
  void poll(IsDone isDone);

  const std::shared_ptr<const CudaLibrary> cuda;
  const int deviceNumber;
  const uint32_t worldRank, ranksPerNode;
  const bool reducesByLibrary;
  Transport *const control;
  std::atomic<uint64_t> h2d{0}, d2h{0};
  FirstFailure firstFailure;
  bool isAborted = false;
  // Members are destroyed in reverse order, so that enqueued work ends before
  // the memory that it uses is freed.
  CudaHostCache host;
  DeviceArena device;
  KernelImage kernels;
  MessageKernels messageKernels;
  StreamTable streams;
  std::optional<EventClock> clock;
  const std::array<AxisDeviceGroups, kNumAxes> axes;
  const std::unique_ptr<DeviceGroup> all;
  HostWork hostWork;
  CollectiveWatch watch;
  std::vector<Registration> registered;
};

CudaBackendImpl::~CudaBackendImpl() { abort(); }

void CudaBackendImpl::abort() noexcept {
  if (std::exchange(isAborted, true))
    return;
  if (!isIdle())
    firstFailure.set("the backend was destroyed while work was queued");
  watch.stop();
  hostWork.stop();
  if (failed()) {
    std::vector<DeviceGroup *> groups{all.get()};
    forEachGroup([&](AxisId, DeviceGroup &group) { groups.push_back(&group); });
    // Ranks that get no more messages cannot go on with what was not updated.
    abortAll(groups, [&] { hostWork.release(); });
  }
  for (size_t i = 0; i < kNumStreams; ++i)
    (void)cuda->cudaStreamSynchronize(streams.at(StreamId(i)));
}

void CudaBackendImpl::connectGroups(
    const std::array<WarmUp, kNumAxes> &messages) {
  // Memory is registered first, because a registered buffer connects in another
  // way.
  forEachGroup([&](AxisId, DeviceGroup &group) {
    registered.push_back(group.registerMemory(device.base(), device.size()));
  });
  for (size_t i = 0; i < kNumAxes; ++i) {
    const auto &[gather, reduce] = axes[i];
    if (gather)
      gather->connect({messages[i].gathers, {}, {}}, device.base(),
                      device.size());
    if (reduce)
      reduce->connect(
          {{},
           messages[i].exchanges,
           reducesByLibrary ? messages[i].exchanges : std::set<uint64_t>()},
          device.base(), device.size());
  }
  if (all)
    all->connect({{sizeof(double)}, {}, {}}, device.base(), device.size());
  device.zero();
}

bool CudaBackendImpl::isIdle() {
  try {
    useDevice();
    for (size_t i = 0; i < kNumStreams; ++i)
      if (!streams.isIdle(StreamId(i)))
        return false;
  } catch (const std::exception &error) {
    firstFailure.set(error.what(), kindOf(error));
  }
  return true;
}

std::shared_ptr<std::byte> CudaBackendImpl::extendDevice(uint64_t from,
                                                         uint64_t to) {
  useDevice();
  // Collectives do not use the extension.
  auto memory =
      std::make_shared<DeviceArena>(cuda, to - from, cudaMemory(cuda));
  return {memory, memory->base()};
}

void CudaBackendImpl::useDevice() {
  // Set it every time, because other code on this thread may change the device.
  // Setting the current device again is cheap.
  cuda->check(cuda->cudaSetDevice(deviceNumber), "cudaSetDevice");
}

template <typename Enqueue>
void CudaBackendImpl::issue(StreamId stream, const char *what,
                            Enqueue enqueue) {
  cudaStream_t on = streams.at(stream);
  if (failed())
    return watch.notice();
  try {
    useDevice();
    enqueue(on);
  } catch (const std::exception &error) {
    std::string where = std::string("stream ") + name(stream);
    firstFailure.set((what ? what : where) + ": rank " +
                         std::to_string(worldRank) + ": " + error.what(),
                     kindOf(error));
  }
}

void CudaBackendImpl::enqueueCopy(void *dst, const void *src, size_t bytes,
                                  cudaStream_t on) {
  if (bytes == 0 || dst == src)
    return;
  cuda->check(cuda->cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, on),
              "cudaMemcpyAsync");
}

void CudaBackendImpl::copy(StreamId stream, void *dst, const void *src,
                           size_t bytes) {
  issue(stream, nullptr, [&](cudaStream_t on) {
    enqueueCopy(dst, src, bytes, on);
    // Copies are counted by address, not by stream, so the counters give the
    // bytes that crossed between device and host.
    bool toHost = host.contains(dst), fromHost = host.contains(src);
    if (toHost && !fromHost)
      d2h.fetch_add(bytes, std::memory_order_relaxed);
    if (fromHost && !toHost)
      h2d.fetch_add(bytes, std::memory_order_relaxed);
  });
}

void CudaBackendImpl::call(StreamId stream, HostTask &task, size_t bytes) {
  // A task cannot access the device's memory.
  (void)bytes;
  await(stream, start(stream, task));
}

uint32_t CudaBackendImpl::start(StreamId stream, HostTask &task) {
  uint32_t number = 0;
  issue(stream, nullptr,
        [&](cudaStream_t on) { number = hostWork.start(stream, on, task); });
  return number;
}

void CudaBackendImpl::await(StreamId stream, uint32_t number) {
  issue(stream, nullptr,
        [&](cudaStream_t on) { hostWork.await(stream, on, number); });
}

void CudaBackendImpl::add(StreamId stream, float *sum, const float *part,
                          size_t elements) {
  issue(stream, nullptr,
        [&](cudaStream_t on) { kernels.add(sum, part, elements, on); });
}

void CudaBackendImpl::unpack(const PackedLayout &layout,
                             const std::byte *packed, DType type,
                             std::byte *out) {
  issue(StreamId::Compute, nullptr, [&](cudaStream_t on) {
    kernels.unpack(layout, packed, type, out, on);
  });
}

DeviceGroup &CudaBackendImpl::require(const std::unique_ptr<DeviceGroup> &group,
                                      const Collective &collective) {
  if (!group)
    throw std::runtime_error(std::string(collective.what) +
                             ": the backend was given no group for it");
  return *group;
}

template <typename Enqueue>
void CudaBackendImpl::issueCollective(StreamId stream, const char *what,
                                      DeviceGroup &group, Enqueue enqueue) {
  issue(stream, what, [&](cudaStream_t on) {
    // A group of one rank cannot hang.
    bool isWatched = group.size() > 1;
    if (isWatched)
      watch.begin(stream, on, what, group);
    enqueue(on);
    if (isWatched)
      watch.end(stream, on);
  });
}

void CudaBackendImpl::allGather(const Collective &collective) {
  collective.message.expectRaw(collective.what);
  DeviceGroup &group =
      require(axes[size_t(collective.axis)].gather, collective);
  issueCollective(
      collective.stream, collective.what, group,
      [&](cudaStream_t on) { enqueueGather(collective, group, on); });
}

void CudaBackendImpl::enqueueGather(const Collective &collective,
                                    DeviceGroup &group, cudaStream_t on) {
  if (group.size() == 1)
    return enqueueCopy(collective.out, collective.in, collective.bytes, on);
  group.allGather(collective.in, collective.out, collective.bytes, on);
}

void CudaBackendImpl::reduceScatter(const Collective &collective) {
  if (!collective.message.isRounded())
    collective.message.expectRaw(collective.what);
  DeviceGroup &group =
      require(axes[size_t(collective.axis)].reduce, collective);
  issueCollective(
      collective.stream, collective.what, group,
      [&](cudaStream_t on) { enqueueReduction(collective, group, on); });
}

void CudaBackendImpl::enqueueReduction(const Collective &collective,
                                       DeviceGroup &group, cudaStream_t on) {
  const size_t ranks = group.size();
  const size_t chunkBytes = collective.bytes / ranks;
  const size_t elementBytes = byteSize(collective.inType);
  if (chunkBytes * ranks != collective.bytes || chunkBytes % elementBytes != 0)
    throw std::runtime_error("cannot cut " + std::to_string(collective.bytes) +
                             " bytes of " + name(collective.inType) + " in " +
                             std::to_string(ranks) + " equal chunks");
  uint32_t locals = collective.axis == AxisId::World ? ranksPerNode : 1;
  if (ranks % locals != 0)
    throw std::runtime_error("cannot group " + std::to_string(ranks) +
                             " ranks as nodes of " + std::to_string(locals));
  const std::byte *own = collective.in + group.rank() * chunkBytes;
  // A single chunk of the same type is copied.
  if (ranks == 1 && collective.inType == collective.outType)
    return enqueueCopy(collective.out, own, chunkBytes, on);
  if (collective.message.isRounded())
    return messageKernels.reduceScatter(collective, group,
                                        chunkBytes / elementBytes, on);
  if (reducesByLibrary && collective.inType == collective.outType)
    return group.reduceScatter(collective.in, collective.out,
                               chunkBytes / elementBytes, collective.inType,
                               on);
  // The library's own reduction rounds to the chunks' type at every step of a
  // ring, in an order that depends on the machine.
  group.exchangeChunks(collective.in, collective.scratch, chunkBytes, on);
  cuda::SumChunksArguments chunks;
  chunks.own = own;
  chunks.scratch = collective.scratch;
  chunks.out = collective.out;
  chunks.elements = chunkBytes / elementBytes;
  chunks.rank = group.rank();
  chunks.nodes = uint32_t(ranks / locals);
  chunks.locals = locals;
  kernels.sumChunks(chunks, collective.inType, collective.outType, on);
}

void CudaBackendImpl::sumOverRanks(double *number, double *scratch,
                                   const char *what) {
  if (!all)
    throw std::runtime_error(std::string(what) +
                             ": the backend was given no group of all ranks");
  if (all->size() == 1)
    return;
  issueCollective(StreamId::Compute, what, *all, [&](cudaStream_t on) {
    all->allGather(reinterpret_cast<const std::byte *>(number),
                   reinterpret_cast<std::byte *>(scratch), sizeof(double), on);
    cuda::SumChunksArguments chunks{};
    chunks.own = chunks.out = number;
    chunks.scratch = scratch;
    chunks.elements = 1;
    chunks.rank = all->rank();
    chunks.nodes = all->size();
    chunks.locals = 1;
    kernels.sumChunks(chunks, DType::F64, DType::F64, on);
  });
}

void CudaBackendImpl::record(uint32_t event, StreamId stream) {
  streams.requireEvent(event);
  issue(stream, nullptr, [&](cudaStream_t) { streams.record(event, stream); });
}

void CudaBackendImpl::wait(uint32_t event, StreamId stream) {
  streams.requireEvent(event);
  issue(stream, nullptr, [&](cudaStream_t) { streams.wait(event, stream); });
}

template <typename IsDone>
void CudaBackendImpl::poll(IsDone isDone) {
  // cudaStreamSynchronize would not return for a collective whose peer has
  // ended.
  std::chrono::microseconds sleep(0);
  while (!failed() && !isDone()) {
    std::this_thread::sleep_for(sleep);
    sleep = std::min(sleep + std::chrono::microseconds(2), longestSleep);
  }
  if (failed())
    watch.notice();
}

void CudaBackendImpl::waitOnHost(uint32_t event) {
  streams.requireEvent(event);
  issue(StreamId::Compute, nullptr,
        [&](cudaStream_t) { poll([&] { return streams.isReached(event); }); });
}

void CudaBackendImpl::synchronize() {
  for (size_t i = 0; i < kNumStreams; ++i)
    issue(StreamId(i), nullptr, [&](cudaStream_t) {
      poll([&] { return streams.isIdle(StreamId(i)); });
    });
}

ByteCounters CudaBackendImpl::counters() const {
  ByteCounters counters;
  forEachGroup([&](AxisId axis, DeviceGroup &group) {
    uint32_t ownNode = worldRank / ranksPerNode;
    for (uint32_t peer = 0; peer < group.size(); ++peer) {
      bool isWithin = axis == AxisId::Local ||
                      (axis == AxisId::World &&
                       group.worldRank(peer) / ranksPerNode == ownNode);
      counters.links[isWithin ? LinkId::Intra : LinkId::Inter] +=
          group.bytesSentTo(peer);
    }
  });
  counters.controlSent = control ? control->bytesSent() : 0;
  for (uint32_t peer = 0; all && peer < all->size(); ++peer)
    counters.controlSent += all->bytesSentTo(peer);
  counters.links[LinkId::H2D] = h2d.load(std::memory_order_relaxed);
  counters.links[LinkId::D2H] = d2h.load(std::memory_order_relaxed);
  return counters;
}

} // namespace

std::unique_ptr<CudaBackend> makeCudaBackend(CudaBackendOptions options) {
  return std::make_unique<CudaBackendImpl>(std::move(options));
}

} // namespace fcdp
