// SPDX-License-Identifier: Apache-2.0

#include "cpu/CpuBackend.h"
#include "core/Failure.h"
#include "core/SumKernels.h"
#include "cpu/CpuArena.h"
#include "streams/StreamSet.h"
#include "transports/Collectives.h"

#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace fcdp {
namespace {

/// For thread-safety, see `Backend`.
class CpuBackend final : public Backend, private CommandExecutor {
public:
  explicit CpuBackend(CpuBackendOptions &&options)
      : device(options.deviceBytes), host(std::move(options.host)),
        axes{options.node, options.local, options.world},
        ranksPerNode(options.ranksPerNode), control(options.control),
        ofShards(options.control ? options.control->size() : 1),
        streams(getExecutor(options.recorder), options.numEvents,
                options.queueCapacity) {
    uint32_t mostRanks = 1;
    forEachTransport([&](AxisId, Transport &transport) {
      mostRanks = std::max(mostRanks, transport.size());
    });
    for (CollectiveScratch &list : scratch)
      list.reserve(mostRanks);
    if (options.codesMessages)
      for (StreamId stream : {StreamId::Inter, StreamId::InterReduce})
        scratch[size_t(stream)].reserveMessages();
  }
  ~CpuBackend() override {
    if (!streams.idle())
      streams.fail("the backend was destroyed while work was queued");
  }

  std::byte *deviceBase() override { return device.base(); }
  std::shared_ptr<std::byte> extendDevice(uint64_t from, uint64_t to) override {
    device.grow(to);
    return {std::shared_ptr<std::byte>(), device.base() + from};
  }
  std::byte *hostBase() override { return host.base(); }

  void copy(StreamId stream, void *dst, const void *src,
            size_t bytes) override {
    Command command;
    command.kind = Command::Kind::Copy;
    command.copy = {dst, src, bytes};
    streams.issue(stream, command);
  }
  void call(StreamId stream, HostTask &task, size_t bytes) override {
    Command command;
    command.kind = Command::Kind::Call;
    command.call = {&task, bytes};
    streams.issue(stream, command);
  }
  void add(StreamId stream, float *sum, const float *part,
           size_t elements) override {
    Command command;
    command.kind = Command::Kind::Add;
    command.add = {sum, part, elements};
    streams.issue(stream, command);
  }
  void allGather(const Collective &collective) override {
    issue(Command::Kind::AllGather, collective);
  }
  void reduceScatter(const Collective &collective) override {
    issue(Command::Kind::ReduceScatter, collective);
  }

  void sumOverRanks(double *number, double *scratch, const char *what) override;
  void record(uint32_t event, StreamId stream) override {
    streams.record(event, stream);
  }
  void wait(uint32_t event, StreamId stream) override {
    streams.wait(event, stream);
  }
  void waitOnHost(uint32_t event) override {
    streams.wait(event, StreamId::Compute);
  }
  void synchronize() override { streams.synchronize(); }

  bool failed() const override { return streams.failed(); }
  void fail(const std::string &message) override { streams.fail(message); }
  std::string failure() const override { return streams.failure(); }
  FailureKind failureKind() const override { return streams.failureKind(); }
  ByteCounters counters() const override;
  std::optional<double> secondsWaited() const override {
    return streams.secondsWaited();
  }

private:
  /// Calls `visit(axis, transport)` for each transport.
  template <typename Visit>
  void forEachTransport(Visit visit) const {
    for (size_t i = 0; i < kNumAxes; ++i)
      for (Transport *transport : {axes[i].gather, axes[i].reduce})
        if (transport)
          visit(static_cast<AxisId>(i), *transport);
  }
  Transport *find(Command::Kind kind, AxisId axis) const {
    const AxisTransports &transports = axes[size_t(axis)];
    return kind == Command::Kind::AllGather ? transports.gather
                                            : transports.reduce;
  }
  void issue(Command::Kind kind, const Collective &collective) {
    if (!find(kind, collective.axis))
      throw std::runtime_error(std::string(collective.what) +
                               ": the backend was given no transport for it");
    Command command;
    command.kind = kind;
    command.collective = collective;
    streams.issue(collective.stream, command);
  }
  CommandExecutor &getExecutor(StepRecorder *recorder) {
    if (!recorder)
      return *this;
    return recording.emplace(static_cast<CommandExecutor &>(*this), *recorder);
  }
  void execute(StreamId stream, const Command &command) override;
  void interrupt() noexcept override;
  void runCopy(StreamId stream, const CopyCommand &copy);
  void runCall(StreamId stream, const CallCommand &call);
  static void runAdd(const AddCommand &add);

  bool isHost(const void *address) const {
    auto *byte = static_cast<const std::byte *>(address);
    return host.base() && byte >= host.base() &&
           byte < host.base() + host.size();
  }

  CpuArena device;
  HostSegment host;
  const std::array<AxisTransports, kNumAxes> axes;
  const uint32_t ranksPerNode;
  Transport *const control;
  /// It is a member, so that a step does not allocate.
  CollectiveScratch numbers;
  /// One number of each rank, in the order of the shards.
  std::vector<double> ofShards;
  std::atomic<uint64_t> h2d{0}, d2h{0};
  std::array<CollectiveScratch, kNumStreams> scratch;
  /// Empty if no recorder was given.
  std::optional<RecordingExecutor> recording;
  // The last member, so that its threads end before the members that they use
  // are destroyed.
  StreamSet streams;
};

void CpuBackend::execute(StreamId stream, const Command &command) {
  if (command.kind == Command::Kind::Copy)
    return runCopy(stream, command.copy);
  if (command.kind == Command::Kind::Call)
    return runCall(stream, command.call);
  if (command.kind == Command::Kind::Add)
    return runAdd(command.add);
  const Collective &collective = command.collective;
  Transport &transport = *find(command.kind, collective.axis);
  CollectiveScratch &lists = scratch[size_t(stream)];
  if (command.kind == Command::Kind::AllGather)
    return fcdp::allGather(transport, collective, lists);
  size_t locals = collective.axis == AxisId::World ? ranksPerNode : 1;
  fcdp::reduceScatter(transport, collective, lists, locals);
}

void CpuBackend::interrupt() noexcept {
  // Another stream may be waiting for a peer that will never answer.
  forEachTransport([](AxisId, Transport &transport) { transport.abort(); });
}

void CpuBackend::sumOverRanks(double *number, double *scratch,
                              const char *what) {
  const uint32_t ranks = control ? control->size() : 1;
  exchangeNumbers(control, *number, {scratch, ranks}, numbers, what);
  // Local rank l of N nodes owns shard l N + n.
  double sum = 0;
  auto own = ofShards.begin();
  for (uint32_t local = 0; local < ranksPerNode; ++local)
    for (uint32_t rank = local; rank < ranks; rank += ranksPerNode)
      sum += *own++ = scratch[rank];
  std::copy(ofShards.begin(), own, scratch);
  *number = sum;
}

void CpuBackend::runCopy(StreamId stream, const CopyCommand &copy) {
  if (copy.bytes == 0 || copy.dst == copy.src)
    return;
  // Copies are counted by address, not by stream, so the counters give the
  // bytes that crossed between device and host.
  bool toHost = isHost(copy.dst), fromHost = isHost(copy.src);
  // Other memory of the host is known by the stream that copies it.
  toHost |= stream == StreamId::D2H && !device.contains(copy.dst);
  fromHost |= stream == StreamId::H2D && !device.contains(copy.src);
  if (toHost && !fromHost)
    d2h.fetch_add(copy.bytes, std::memory_order_relaxed);
  if (fromHost && !toHost)
    h2d.fetch_add(copy.bytes, std::memory_order_relaxed);
  std::memcpy(copy.dst, copy.src, copy.bytes);
}

void CpuBackend::runCall(StreamId stream, const CallCommand &call) {
  try {
    call.task->run();
  } catch (const std::exception &error) {
    throw Failure(error.what(), FailureKind::Local);
  }
  std::atomic<uint64_t> &link = stream == StreamId::D2H ? d2h : h2d;
  link.fetch_add(call.bytes, std::memory_order_relaxed);
}

void CpuBackend::runAdd(const AddCommand &add) {
  auto *sum = reinterpret_cast<std::byte *>(add.sum);
  const std::byte *const sources[] = {
      sum, reinterpret_cast<const std::byte *>(add.part)};
  sumChunks(sum, DType::F32, sources, DType::F32, add.elements);
}

ByteCounters CpuBackend::counters() const {
  ByteCounters counters;
  forEachTransport([&](AxisId axis, Transport &transport) {
    uint32_t ownNode = transport.worldRank(transport.rank()) / ranksPerNode;
    for (uint32_t peer = 0; peer < transport.size(); ++peer) {
      bool isWithin = axis == AxisId::Local ||
                      (axis == AxisId::World &&
                       transport.worldRank(peer) / ranksPerNode == ownNode);
      counters.links[isWithin ? LinkId::Intra : LinkId::Inter] +=
          transport.bytesSentTo(peer);
    }
  });
  counters.controlSent = control ? control->bytesSent() : 0;
  counters.links[LinkId::H2D] = h2d.load(std::memory_order_relaxed);
  counters.links[LinkId::D2H] = d2h.load(std::memory_order_relaxed);
  return counters;
}

} // namespace

std::unique_ptr<Backend> makeCpuBackend(CpuBackendOptions options) {
  return std::make_unique<CpuBackend>(std::move(options));
}

} // namespace fcdp
