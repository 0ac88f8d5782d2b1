// SPDX-License-Identifier: Apache-2.0
#include "probe/Probe.h"

#include "cpu/MemoryLimit.h"
#include "device/Gpu.h"
#include "probe/ProbeLinks.h"
#include "probe/ProbedCluster.h"
#include "probe/Prober.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <fstream>
#include <functional>

namespace fcdp::probe {

namespace {

/// Returns a number that identifies a machine since its start, and is exact in
/// a double.
double identifyMachine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return double(std::hash<std::string>()(id) >> 12);
}

/// Returns the bytes per rank of the machine that has the least left.
double findAvailableMemory(Job &job) {
  double own[] = {identifyMachine(), double(availableMemory())};
  std::vector<double> all = job.gather(own, "exchange of the probe");
  double perRank = 0x1p53;
  for (size_t rank = 0; rank < all.size(); rank += 2) {
    size_t ranks = 0;
    for (size_t other = 0; other < all.size(); other += 2)
      ranks += all[other] == all[rank];
    perRank = std::min(perRank, all[rank + 1] / double(ranks));
  }
  return perRank;
}

void measureLinks(Prober &prober, LinkProbe &links, ProbedCluster &found) {
  const Mesh &mesh = found.mesh;
  LinkScatter inter, intra;
  prober.beginLinks();
  if (mesh.nodes > 1)
    found.inter = links.measureCollectives(AxisId::Node, StreamId::Inter,
                                           mesh.nodes, found.overNodes, inter);
  if (mesh.locals > 1)
    found.intra = links.measureCollectives(
        AxisId::Local, StreamId::Intra, mesh.locals, found.overLocals, intra);
  prober.endLinks(found);
  // If there is only one axis, all ranks are those of that axis.
  if (mesh.nodes > 1 && mesh.locals > 1 && prober.joinWorld())
    links.measureCollectives(AxisId::World, StreamId::Inter, mesh.size(),
                             found.overWorld, inter);
  found.spread.inter = inter.bandwidth;
  found.spread.interLatency = inter.latency;
  found.spread.intra = intra.bandwidth;
  found.spread.intraLatency = intra.latency;
}

} // namespace

void requireProbe(const ProbeOptions &options) {
  if (options.isForGpus)
    requireGpus("--target=cuda");
}

JobOptions prepareProbe(const ProbeOptions &options, const Launch &launch) {
  at::set_num_threads(threadsPerRank(options.threads, launch.mesh.locals));
  JobOptions job = makeJobOptions(launch, options.timeout, options.interface);
  // Ranks that run another kind of probe have another plan hash.
  job.planHash = options.isForGpus ? "probe of GPUs" : "probe";
  // Between GPUs, Gloo carries only small messages.
  if (options.isForGpus)
    job.nodeGroups = job.localGroups = {false, false};
  return job;
}

void probeCluster(const ProbeOptions &options, Job &job,
                  const ProbeReports &reports) {
  ProbedCluster found;
  found.command = options.command;
  found.mesh = job.mesh();
  reports.onPart("memory and computing");
  std::unique_ptr<Prober> prober = options.isForGpus
                                       ? makeGpuProber(options, job, found)
                                       : makeCpuProber(job);
  prober->divideMemory(findAvailableMemory(job), found);
  job.barrier("begin of the probe's computing");
  prober->measureComputing(found);
  LinkProbe links(*prober, job);
  reports.onPart("copies");
  LinkScatter copies;
  found.h2d = links.measureCopies(StreamId::H2D, copies);
  found.d2h = links.measureCopies(StreamId::D2H, copies);
  found.spread.copies = copies.bandwidth;
  if (prober->limits().hasTwoMemories)
    found.hostBandwidth = links.measureBothWays(found.h2d, found.d2h);
  reports.onPart("links");
  measureLinks(*prober, links, found);
  reports.onPart("computing under load");
  prober->measureUnderLoad(links, found);
  reports.onPart("");
  if (job.rank() == 0)
    reports.onFound(toYaml(found));
  job.barrier("end of the probe");
  prober.reset();
  job.finish();
}

} // namespace fcdp::probe
