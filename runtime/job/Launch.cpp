// SPDX-License-Identifier: Apache-2.0
#include "Launch.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>

namespace fcdp {

namespace {

/// Reads one launcher's variables.
class Variables {
public:
  Variables(const Environment &environment, std::string launcher)
      : environment(environment), launcher(std::move(launcher)) {}

  std::string text(const std::string &name) const {
    if (auto value = environment(name))
      return *value;
    fail("the variable " + name + " is not set");
  }
  uint32_t number(const std::string &name) const {
    return parse(name, text(name));
  }
  uint32_t number(const std::string &name, uint32_t otherwise) const {
    auto value = environment(name);
    return value ? parse(name, *value) : otherwise;
  }
  /// Returns the number of a port, at most 65535.
  uint16_t port(const std::string &name, uint32_t missing) const {
    return checkedPort(name, number(name, missing));
  }

  uint16_t port(const std::string &name) const {
    return checkedPort(name, number(name));
  }

  [[noreturn]] void fail(const std::string &message) const {
    throw std::runtime_error("launched by " + launcher + ": " + message);
  }

private:
  uint16_t checkedPort(const std::string &name, uint32_t number) const {
    if (number > std::numeric_limits<uint16_t>::max())
      fail(name + ": expected a port of at most 65535, got " +
           std::to_string(number));
    return uint16_t(number);
  }

  uint32_t parse(const std::string &name, const std::string &value) const {
    uint32_t number = 0;
    auto [end, error] =
        std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
      fail("expected a number in " + name + ", got '" + value + "'");
    return number;
  }

  const Environment &environment;
  std::string launcher;
};

constexpr const char *kThisMachine = "127.0.0.1";

/// Returns a port for a job of this number, the same on all its ranks.
uint16_t portOfJob(uint64_t job) {
  constexpr uint64_t first = 20000, count = 12000, prime = 2654435761;
  return first + job * prime % 4294967296 % count;
}

void checkCounts(const Variables &variables, const Launch &launch,
                 uint32_t size) {
  if (launch.mesh.locals == 0 || launch.mesh.nodes == 0 ||
      launch.mesh.size() != size)
    variables.fail("expected the same number of ranks on each node, got " +
                   std::to_string(size) + " ranks of which " +
                   std::to_string(launch.mesh.locals) + " are on this node");
}

/// Refuses variables of ranks that were set by hand and contradict each other.
void checkRank(const Variables &variables, const Launch &launch) {
  auto require = [&](const char *name, uint32_t found, uint32_t count,
                     const char *what) {
    if (found >= count)
      variables.fail(std::string(name) + ": expected a number below the " +
                     std::to_string(count) + " " + what + ", got " +
                     std::to_string(found));
  };
  require("RANK", launch.rank, launch.mesh.size(), "ranks of WORLD_SIZE");
  require("LOCAL_RANK", launch.place.local, launch.mesh.locals,
          "ranks of LOCAL_WORLD_SIZE");
  require("GROUP_RANK", launch.place.node, launch.mesh.nodes,
          "nodes, which are WORLD_SIZE / LOCAL_WORLD_SIZE");
}

Launch fromTorchrun(const Environment &environment) {
  Variables variables(environment, "torchrun");
  Launch launch;
  launch.launcher = "torchrun";
  uint32_t size = variables.number("WORLD_SIZE");
  launch.mesh.locals = variables.number("LOCAL_WORLD_SIZE");
  launch.mesh.nodes = launch.mesh.locals ? size / launch.mesh.locals : 0;
  checkCounts(variables, launch, size);
  launch.place = {variables.number("GROUP_RANK"),
                  variables.number("LOCAL_RANK")};
  launch.rank = variables.number("RANK");
  launch.masterHost = variables.text("MASTER_ADDR");
  launch.masterPort = variables.port("MASTER_PORT");
  checkRank(variables, launch);
  bool agentServes = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.servesStore = launch.rank == 0 && !agentServes;
  // The store of a rank on one machine need not be reachable from elsewhere.
  if (!agentServes && launch.mesh.nodes == 1)
    launch.masterHost = kThisMachine;
  launch.restartCount = variables.number("TORCHELASTIC_RESTART_COUNT", 0);
  launch.secret =
      secretOf(environment, environment("TORCHELASTIC_RUN_ID").value_or(""));
  return launch;
}

/// Finds the address at which the ranks meet, for launchers that do not set it.
void findMaster(const Environment &environment, const Variables &variables,
                uint64_t job, Launch &launch) {
  auto host = environment("MASTER_ADDR");
  if (!host && launch.mesh.nodes > 1)
    variables.fail("several nodes need MASTER_ADDR and MASTER_PORT, the host "
                   "of rank 0 and a free port there; give them with "
                   "-x MASTER_ADDR=HOST -x MASTER_PORT=PORT");
  launch.masterHost = launch.mesh.nodes > 1 ? *host : kThisMachine;
  launch.masterPort = variables.port("MASTER_PORT", portOfJob(job));
  launch.servesStore = launch.rank == 0;
  launch.secret = secretOf(environment, std::to_string(job));
}

/// Returns the number of the node. Open MPI names the node only through its
/// daemon, "<job>.<node>;tcp://...".
uint32_t nodeOfDaemon(const Variables &variables) {
  std::string uri = variables.text("OMPI_MCA_orte_local_daemon_uri");
  size_t dot = uri.find('.');
  uint32_t node = 0;
  if (dot == uri.npos ||
      std::from_chars(uri.data() + dot + 1, uri.data() + uri.size(), node).ec !=
          std::errc())
    variables.fail("OMPI_MCA_orte_local_daemon_uri does not name the node; "
                   "start the ranks with torchrun or srun");
  return node;
}

Launch fromOpenMpi(const Environment &environment) {
  Variables variables(environment, "mpirun");
  Launch launch;
  launch.launcher = "mpirun";
  uint32_t size = variables.number("OMPI_COMM_WORLD_SIZE");
  launch.mesh.locals = variables.number("OMPI_COMM_WORLD_LOCAL_SIZE");
  launch.mesh.nodes = launch.mesh.locals ? size / launch.mesh.locals : 0;
  checkCounts(variables, launch, size);
  launch.rank = variables.number("OMPI_COMM_WORLD_RANK");
  launch.place.local = variables.number("OMPI_COMM_WORLD_LOCAL_RANK");
  if (launch.mesh.nodes > 1)
    launch.place.node = nodeOfDaemon(variables);
  findMaster(environment, variables,
             variables.number("OMPI_MCA_ess_base_jobid", 0), launch);
  return launch;
}

/// Returns the first host of a list such as "a[07-09,12],b1".
std::string firstHost(const std::string &list) {
  size_t comma = list.find_first_of(",[");
  if (comma == list.npos || list[comma] == ',')
    return list.substr(0, comma);
  size_t end = list.find_first_of(",-]", comma);
  return list.substr(0, comma) + list.substr(comma + 1, end - comma - 1);
}

Launch fromSlurm(const Environment &environment) {
  Variables variables(environment, "srun");
  Launch launch;
  launch.launcher = "srun";
  uint32_t size = variables.number("SLURM_STEP_NUM_TASKS",
                                   variables.number("SLURM_NTASKS", 1));
  launch.mesh.nodes = variables.number("SLURM_STEP_NUM_NODES",
                                       variables.number("SLURM_NNODES", 1));
  launch.mesh.locals = launch.mesh.nodes ? size / launch.mesh.nodes : 0;
  checkCounts(variables, launch, size);
  launch.place = {variables.number("SLURM_NODEID"),
                  variables.number("SLURM_LOCALID")};
  launch.rank = variables.number("SLURM_PROCID");
  uint64_t job = (uint64_t(variables.number("SLURM_JOB_ID", 0)) << 16) +
                 variables.number("SLURM_STEP_ID", 0);
  auto master = [&](const std::string &name) -> std::optional<std::string> {
    if (auto given = environment(name); given || name != "MASTER_ADDR")
      return given;
    auto hosts = environment("SLURM_STEP_NODELIST");
    if (!hosts || launch.mesh.nodes == 1)
      return std::nullopt;
    return firstHost(*hosts);
  };
  findMaster(master, variables, job, launch);
  return launch;
}

} // namespace

Launch onlyRank(const std::string &launcher) {
  Launch launch;
  launch.launcher = launcher;
  launch.masterHost = kThisMachine;
  launch.servesStore = true;
  return launch;
}

std::string secretOf(const Environment &environment, const std::string &name) {
  auto key = environment("FCDP_JOB_KEY");
  if (!key)
    return name;
  constexpr size_t least = 16;
  if (key->size() < least)
    throw std::runtime_error(
        "FCDP_JOB_KEY: expected a secret of at least 16 characters, got " +
        std::to_string(key->size()));
  return *key;
}

std::optional<std::string> processEnvironment(const std::string &name) {
  const char *value = std::getenv(name.c_str());
  if (!value)
    return std::nullopt;
  return value;
}

std::optional<Launch> detectLaunch(const Environment &environment,
                                   bool ignoreSlurm) {
  if (environment("RANK") && environment("WORLD_SIZE"))
    return fromTorchrun(environment);
  if (environment("OMPI_COMM_WORLD_RANK"))
    return fromOpenMpi(environment);
  // Only srun sets the step's variables.
  if (!ignoreSlurm && environment("SLURM_PROCID") &&
      environment("SLURM_STEP_NUM_TASKS"))
    return fromSlurm(environment);
  return std::nullopt;
}

} // namespace fcdp
