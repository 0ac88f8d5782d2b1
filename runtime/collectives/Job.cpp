// SPDX-License-Identifier: Apache-2.0

#include "collectives/Job.h"
#include "collectives/Collectives.h"
#include "collectives/FailureMonitor.h"
#include "collectives/GlooTransport.h"
#include "collectives/LocalAddress.h"
#include "collectives/Rendezvous.h"
#include "collectives/TcpStore.h"

#include <array>
#include <random>

namespace fcdp {
namespace {

/// Time limit of the monitor's store operations. It is well below the time
/// within which the death of a rank must be found.
constexpr double monitorOperationSeconds = 4;
/// Number of heartbeats beyond the heartbeat limit after which every monitor
/// has its verdict: its own beat, its poll, and the time that the rank with the
/// store waits.
constexpr double verdictBeats = 5;

std::string randomName() {
  std::random_device source;
  char text[17];
  std::snprintf(text, sizeof(text), "%08x%08x", unsigned(source()),
                unsigned(source()));
  return text;
}

class GlooJob final : public Job {
public:
  explicit GlooJob(const JobOptions &options);

  const Mesh &mesh() const override { return options.mesh; }
  const Place &place() const override { return options.place; }
  std::string segmentName() const override {
    return jobName + "-" + std::to_string(options.place.node);
  }

  AxisTransports transports(Axis axis) override {
    const auto &[gather, reduce] = groups[size_t(axis)];
    return {gather.get(), reduce.get()};
  }
  Transport &control() override { return *controlGroup; }
  std::vector<double> gather(std::span<const double> values,
                             const char *what) override {
    return gatherValues(*controlGroup, values, what);
  }
  void barrier(const char *what) override {
    fcdp::barrier(*controlGroup, what);
  }

  void set(const std::string &key, const std::string &value) override {
    store->set("user/" + key, value);
  }
  std::string get(const std::string &key, double seconds) override {
    return store->get("user/" + key, seconds);
  }
  std::optional<std::string> find(const std::string &key) override {
    if (!store->has("user/" + key))
      return std::nullopt;
    return store->get("user/" + key, options.joinSeconds);
  }

  void abortTransfers() noexcept override;
  void publishFailure(const std::string &message) override {
    monitor->publishFailure(message);
  }
  std::string explainFailure(const std::string &message) override;
  void finish() override { monitor->finish(); }

private:
  TcpStoreOptions storeOptions() const;
  std::vector<JoinRecord> joinOthers(const std::string &address);
  void startMonitor(const std::vector<JoinRecord> &records);
  void connectGroups();
  void connectAxis(Axis axis, const char *name, const AxisGroups &wanted,
                   const std::vector<uint32_t> &worldRanks);
  std::unique_ptr<Transport> connect(const std::string &name,
                                     const std::vector<uint32_t> &worldRanks);

  const JobOptions options;
  std::string jobName;
  GlooDevice device;
  // Members are destroyed in reverse order: the monitor watches until the
  // groups are gone, and the store's server ends last.
  std::unique_ptr<TcpStore> store;
  std::unique_ptr<FailureMonitor> monitor;
  struct Groups {
    std::unique_ptr<Transport> gather, reduce;
  };
  std::array<Groups, kNumAxes> groups;
  std::unique_ptr<Transport> controlGroup;
};

GlooJob::GlooJob(const JobOptions &givenOptions) : options(givenOptions) {
  std::string address = localAddressToward(options.host);
  store = std::make_unique<TcpStore>(storeOptions());
  if (options.servesStore && options.onStorePort)
    options.onStorePort(store->port());
  device = makeGlooDevice(options.interface, address);
  std::vector<JoinRecord> records = joinOthers(address);
  startMonitor(records);
  try {
    if (rank() == 0)
      store->set("job-name", randomName());
    jobName = store->get("job-name", options.joinSeconds);
    connectGroups();
  } catch (const std::exception &error) {
    throw std::runtime_error(explainFailure(error.what()));
  }
}

TcpStoreOptions GlooJob::storeOptions() const {
  TcpStoreOptions tcp;
  tcp.host = options.host;
  tcp.port = options.port;
  tcp.serves = options.servesStore;
  tcp.connectSeconds = options.joinSeconds;
  tcp.operationSeconds = options.joinSeconds;
  tcp.prefix = "fcdp/" + std::to_string(options.restartCount) + "/" +
               std::to_string(options.sessionNumber);
  return tcp;
}

std::vector<JoinRecord> GlooJob::joinOthers(const std::string &address) {
  JoinRecord own;
  own.launcherRank = options.launcherRank;
  own.launcherSize = options.launcherSize;
  own.mesh = options.mesh;
  own.place = options.place;
  own.abi = options.abi;
  own.planHash = options.planHash;
  own.hostName = hostName();
  // If an interface is given, the user is responsible for its address.
  own.address = options.interface.empty() ? address : options.interface;
  own.servesStore = options.servesStore;
  publishAlive(*store, rank());
  return meet(*store, own, options.joinSeconds);
}

void GlooJob::startMonitor(const std::vector<JoinRecord> &records) {
  std::string where = options.host + ":" + std::to_string(store->port());
  FailureMonitorOptions watch;
  watch.mesh = options.mesh;
  watch.rank = rank();
  watch.heartbeatSeconds = options.heartbeatSeconds;
  watch.limitSeconds = options.heartbeatLimitSeconds;
  watch.holdsStore = options.servesStore;
  watch.storeOwner = "the launcher's store at " + where;
  for (uint32_t rank = 0; rank < records.size(); ++rank)
    if (records[rank].servesStore)
      watch.storeOwner = describeRank(options.mesh, rank) +
                         ", which holds the store at " + where + ",";
  watch.onFailure = options.onFailure;

  TcpStoreOptions own = storeOptions();
  own.serves = false;
  own.port = store->port();
  own.operationSeconds = monitorOperationSeconds;
  monitor = std::make_unique<FailureMonitor>(std::make_shared<TcpStore>(own),
                                             std::move(watch));
}

std::unique_ptr<Transport>
GlooJob::connect(const std::string &name,
                 const std::vector<uint32_t> &worldRanks) {
  GlooGroupOptions group;
  for (uint32_t i = 0; i < worldRanks.size(); ++i)
    if (worldRanks[i] == rank())
      group.rank = i;
  // Groups of one kind are distinguished by their first rank.
  group.name = name + "-" + std::to_string(worldRanks[0]);
  group.worldRanks = worldRanks;
  group.store = store->handle();
  group.joinSeconds = options.joinSeconds;
  group.collectiveSeconds = options.collectiveSeconds;
  return makeGlooTransport(device, group);
}

void GlooJob::connectAxis(Axis axis, const char *name, const AxisGroups &wanted,
                          const std::vector<uint32_t> &worldRanks) {
  auto &[gather, reduce] = groups[size_t(axis)];
  if (wanted.gather)
    gather = connect(std::string(name) + "-gather", worldRanks);
  if (wanted.reduce)
    reduce = connect(std::string(name) + "-reduce", worldRanks);
}

void GlooJob::connectGroups() {
  std::vector<uint32_t> sameLocal, sameNode, inShardOrder, everybody;
  const Mesh &mesh = options.mesh;
  for (uint32_t node = 0; node < mesh.nodes; ++node)
    sameLocal.push_back(worldRank(mesh, {node, options.place.local}));
  for (uint32_t local = 0; local < mesh.locals; ++local)
    sameNode.push_back(worldRank(mesh, {options.place.node, local}));
  for (uint32_t rank = 0; rank < mesh.size(); ++rank)
    everybody.push_back(rank);
  for (uint32_t local = 0; local < mesh.locals; ++local)
    for (uint32_t node = 0; node < mesh.nodes; ++node)
      inShardOrder.push_back(worldRank(mesh, {node, local}));
  connectAxis(Axis::Node, "node", options.nodeGroups, sameLocal);
  connectAxis(Axis::Local, "local", options.localGroups, sameNode);
  connectAxis(Axis::World, "world", options.worldGroups, inShardOrder);
  controlGroup = connect("control", everybody);
}

void GlooJob::abortTransfers() noexcept {
  for (const Groups &axis : groups)
    for (Transport *group : {axis.gather.get(), axis.reduce.get()})
      if (group)
        group->abort();
  controlGroup->abort();
}

std::string GlooJob::explainFailure(const std::string &message) {
  double seconds = monitor->limit() + verdictBeats * monitor->heartbeat();
  if (auto cause = monitor->findCause(seconds))
    return *cause + " (seen by rank " + std::to_string(rank()) +
           " as: " + message + ")";
  monitor->publishFailure(message);
  return message;
}

} // namespace

std::unique_ptr<Job> joinJob(const JobOptions &options) {
  return std::make_unique<GlooJob>(options);
}

} // namespace fcdp
