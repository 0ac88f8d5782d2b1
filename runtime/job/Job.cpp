// SPDX-License-Identifier: Apache-2.0

#include "job/Job.h"
#include "job/FailureMonitor.h"
#include "job/Rendezvous.h"
#include "store/LocalAddress.h"
#include "store/Secret.h"
#include "store/StoreAddress.h"
#include "store/StoreClient.h"
#include "store/StoreServer.h"
#include "store/TcpStore.h"
#include "transports/Collectives.h"
#include "transports/GlooStore.h"
#include "transports/GlooTransport.h"

#include <array>
#include <atomic>
#include <chrono>
#include <sstream>
#include <sys/resource.h>

namespace fcdp {
namespace {

/// Number of heartbeats beyond the heartbeat limit after which every monitor
/// has its verdict: its own heartbeat and look, and those of another rank.
constexpr double verdictBeats = 5;
/// Seconds for which the monitor looks once more after a transfer has timed
/// out.
constexpr double kTimedOutSeconds = 0.2;
/// The open files that a rank of a small job needs.
constexpr rlim_t kLeastOpenFiles = 64;
/// Seconds by which a thread that uses a TCPStore may exceed its limit.
constexpr double kLateSeconds = 2;
constexpr const char *kLoopback = "127.0.0.1";

std::string randomName() {
  constexpr size_t bytes = 8;
  std::string text;
  char digits[3];
  for (unsigned char byte : randomBytes(bytes)) {
    std::snprintf(digits, sizeof(digits), "%02x", unsigned(byte));
    text += digits;
  }
  return text;
}

/// The remaining time of a limit.
class TimeLimit {
public:
  explicit TimeLimit(double seconds)
      : end(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                               std::chrono::duration<double>(seconds))) {}
  double left() const {
    constexpr double least = 0.1;
    return std::max(std::chrono::duration<double>(end - Clock::now()).count(),
                    least);
  }

private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end;
};

bool isLoopbackAddress(const std::string &address) {
  return address.rfind("127.", 0) == 0 || address == "::1";
}

class GlooJob final : public Job {
public:
  explicit GlooJob(const JobOptions &options);

  const Mesh &mesh() const override { return options.mesh; }
  const Place &place() const override { return options.place; }
  std::string segmentName() const override {
    return jobName + "-" + std::to_string(options.place.node);
  }

  AxisTransports transports(AxisId axis) override {
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
    return store->find({"user/" + key}).front();
  }
  std::vector<std::string> exchange(const std::string &value,
                                    const char *what) override;

  void abortTransfers() noexcept override;
  void publishFailure(const std::string &message) override {
    monitor->publishFailure(message);
  }
  void beginCall(int64_t steps) noexcept override { monitor->beginCall(steps); }
  void announceEnd(int64_t steps) override { monitor->announceEnd(steps); }
  std::string explainFailure(const std::string &message,
                             FailureKind kind) override;
  void finish() override { monitor->finish(); }

private:
  std::string scope() const;
  StoreAddress reachStore();
  StoreAddress serveStore(TcpStore &launchersStore);
  std::unique_ptr<StoreClient> connectToStore(double seconds) const;
  std::vector<JoinRecord> joinOthers();
  void startMonitor(const std::vector<JoinRecord> &records);
  void connectGroups();
  void connectAxis(AxisId axis, const char *name, const AxisGroups &wanted,
                   const std::vector<uint32_t> &worldRanks);
  std::unique_ptr<Transport> connect(const std::string &name,
                                     const std::vector<uint32_t> &worldRanks);

  const JobOptions options;
  const TimeLimit joining;
  const std::string process = randomName();
  /// The address of this machine on the link in use.
  std::string address;
  std::string jobName;
  GlooDevice device;
  // Members are destroyed in reverse order: the monitor watches until the
  // groups are gone, and the store's server ends last.
  std::shared_ptr<TcpStore> launchersStore;
  std::unique_ptr<StoreServer> server;
  StoreAddress storeAt;
  std::shared_ptr<StoreClient> store;
  c10::intrusive_ptr<c10d::Store> glooStore;
  std::unique_ptr<FailureMonitor> monitor;
  struct Groups {
    std::unique_ptr<Transport> gather, reduce;
  };
  std::array<Groups, kNumAxes> groups;
  std::unique_ptr<Transport> controlGroup;
  uint64_t numExchanges = 0;
  std::atomic<bool> isAborted{false};
};

/// Checks the limit of open files, because libtorch ends the process if it
/// cannot make its event loop.
static void requireOpenFiles() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kLeastOpenFiles)
    throw std::runtime_error(
        "expected a limit of at least " + std::to_string(kLeastOpenFiles) +
        " open files (ulimit -n), got " + std::to_string(limit.rlim_cur));
}

GlooJob::GlooJob(const JobOptions &givenOptions)
    : options(givenOptions), joining(options.joinSeconds) {
  requireOpenFiles();
  // A job on one machine must not be reachable from another.
  address =
      options.mesh.nodes == 1 ? kLoopback : localAddressToward(options.host);
  device = makeGlooDevice(options.interface, address);
  storeAt = reachStore();
  store = connectToStore(joining.left());
  glooStore = makeGlooStore(store, options.joinSeconds);
  std::vector<JoinRecord> records = joinOthers();
  startMonitor(records);
  try {
    if (rank() == 0)
      store->set("job-name", randomName());
    jobName = store->get("job-name", options.joinSeconds);
    connectGroups();
  } catch (const std::exception &error) {
    throw std::runtime_error(explainFailure(error.what(), kindOf(error)));
  }
}

std::string GlooJob::scope() const {
  return "fcdp/" + std::to_string(options.restartCount) + "/" +
         std::to_string(options.sessionNumber);
}

StoreAddress GlooJob::serveStore(TcpStore &launchersStore) {
  server = std::make_unique<StoreServer>(
      StoreServerOptions{address, options.secret, options.onStranger});
  StoreAddress own{hostName(), address, server->port()};
  publishStoreAddress(launchersStore, scope(), options.secret, own);
  return own;
}

StoreAddress GlooJob::reachStore() {
  if (options.isOwnStore)
    return {options.host, options.host, options.port};
  TcpStoreOptions tcp;
  tcp.host = options.host;
  tcp.port = options.port;
  tcp.serves = options.servesStore;
  if (tcp.serves)
    tcp.address = localAddressToward(options.host);
  tcp.seconds = joining.left();
  // Both must outlive this function, because the thread may.
  auto made = std::make_shared<std::shared_ptr<TcpStore>>();
  auto found = std::make_shared<StoreAddress>();
  const std::string where =
      "the job's store at " + options.host + ":" + std::to_string(options.port);
  std::ostringstream late;
  late << where << " did not answer within " << options.joinSeconds
       << " s; is another program at this port, or is the process that serves "
          "the store stopped?";
  runWithin(tcp.seconds + kLateSeconds, late.str(),
            [made, tcp] { *made = std::make_shared<TcpStore>(tcp); });
  launchersStore = *made;
  if (options.servesStore && options.onStorePort)
    options.onStorePort(launchersStore->port());
  if (options.launcherRank == 0)
    return serveStore(*launchersStore);
  runWithin(joining.left() + kLateSeconds, late.str(),
            [found, tcpStore = launchersStore, scope = scope(),
             secret = options.secret, seconds = joining.left()] {
              *found = findStoreAddress(*tcpStore, scope, secret, seconds);
            });
  if (isLoopbackAddress(found->address) && found->host != hostName())
    throw StoreError("launcher rank 0 (host " + found->host +
                     ") would listen on " + found->address +
                     ", where other hosts cannot reach it; set MASTER_ADDR to "
                     "an address instead of a name");
  return *found;
}

std::unique_ptr<StoreClient> GlooJob::connectToStore(double seconds) const {
  StoreClientOptions client;
  client.address = storeAt.address;
  client.port = storeAt.port;
  client.secret = options.secret;
  client.member = "launcher rank " + std::to_string(options.launcherRank);
  client.process = process;
  client.prefix = scope() + "/";
  client.connectSeconds = seconds;
  client.operationSeconds = seconds;
  return std::make_unique<StoreClient>(client);
}

std::vector<JoinRecord> GlooJob::joinOthers() {
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
  own.servesStore = server != nullptr;
  publishAlive(*store, rank());
  return meet(*store, own, options.joinSeconds);
}

void GlooJob::startMonitor(const std::vector<JoinRecord> &records) {
  std::string where = storeAt.address + ":" + std::to_string(storeAt.port);
  FailureMonitorOptions watch;
  watch.mesh = options.mesh;
  watch.rank = rank();
  watch.heartbeatSeconds = options.heartbeatSeconds;
  watch.limitSeconds = options.heartbeatLimitSeconds;
  watch.holdsStore = server != nullptr;
  watch.storeOwner = "the launcher's store at " + where;
  for (uint32_t rank = 0; rank < records.size(); ++rank)
    if (records[rank].servesStore)
      watch.storeOwner = describeRank(options.mesh, rank) +
                         ", which holds the store at " + where + ",";
  watch.onFailure = options.onFailure;

  // The monitor has connections of its own, on which it waits for nothing else.
  const double limit = options.heartbeatLimitSeconds;
  monitor = std::make_unique<FailureMonitor>(
      connectToStore(limit), connectToStore(limit), std::move(watch));
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
  group.store = glooStore;
  group.secret = options.secret;
  group.joinSeconds = options.joinSeconds;
  group.collectiveSeconds = options.collectiveSeconds;
  return makeGlooTransport(device, group);
}

void GlooJob::connectAxis(AxisId axis, const char *name,
                          const AxisGroups &wanted,
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
  connectAxis(AxisId::Node, "node", options.nodeGroups, sameLocal);
  connectAxis(AxisId::Local, "local", options.localGroups, sameNode);
  connectAxis(AxisId::World, "world", options.worldGroups, inShardOrder);
  controlGroup = connect("control", everybody);
}

std::vector<std::string> GlooJob::exchange(const std::string &value,
                                           const char *what) {
  const std::string key = "exchange/" + std::to_string(++numExchanges) + "/";
  std::vector<std::string> keys;
  for (uint32_t rank = 0; rank < options.mesh.size(); ++rank)
    keys.push_back(key + std::to_string(rank));
  constexpr double noLimit = 1e9; // seconds; the monitor ends the wait
  try {
    store->set(keys[rank()], value);
    return store->await(keys, noLimit, [this] { return isAborted.load(); });
  } catch (const StoreError &error) {
    throw TransportError(std::string(what) + ": rank " +
                         std::to_string(rank()) + ": " + error.what());
  }
}

void GlooJob::abortTransfers() noexcept {
  isAborted = true;
  for (const Groups &axis : groups)
    for (Transport *group : {axis.gather.get(), axis.reduce.get()})
      if (group)
        group->abort();
  controlGroup->abort();
}

std::string GlooJob::explainFailure(const std::string &message,
                                    FailureKind kind) {
  const bool isLate = kind == FailureKind::TimedOut;
  const double seconds =
      isLate ? kTimedOutSeconds
             : monitor->limit() + verdictBeats * monitor->heartbeat();
  std::optional<std::string> cause = monitor->findCause(seconds, isLate);
  const bool isFound = cause.has_value();
  if (!cause && isLate)
    cause = monitor->describeSilent();
  const std::string seen = " (seen by rank " + std::to_string(rank());
  const std::string explained = !cause ? message
                                : *cause == message
                                    ? message + seen + ")"
                                    : *cause + seen + " as: " + message + ")";
  if (!isFound)
    monitor->publishFailure(explained, isLate);
  return explained;
}

} // namespace

std::unique_ptr<Job> joinJob(const JobOptions &options) {
  return std::make_unique<GlooJob>(options);
}

} // namespace fcdp
