// SPDX-License-Identifier: Apache-2.0

#include "Summary.h"

#include "dialects/Aten/Aten.h"
#include "fcdp/Analysis/DeviceMemory.h"
#include "fcdp/Cluster/CostModel.h"
#include "fcdp/Conversion/Traffic.h"
#include "fcdp/Simulation/StepBound.h"
#include "fcdp/Simulation/StepProgram.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fcdp;

namespace {
struct Storage {
  int64_t parameters = 0, trainable = 0, elements = 0, bytes = 0;
  int64_t buckets = 0, padding = 0;
};
} // namespace

static Storage measureStorage(ModuleOp module) {
  Storage storage;
  for (auto parameter : module.getOps<ParameterOp>()) {
    ++storage.parameters;
    storage.trainable += parameter.getTrainable();
    storage.elements += parameter.getTensorType().getNumElements();
    storage.bytes += byteSize(parameter.getTensorType());
  }
  for (auto bucket : module.getOps<BucketOp>()) {
    ++storage.buckets;
    storage.padding += static_cast<int64_t>(bucket.getElements()) *
                       elementBytes(bucket.getStorage());
  }
  // Every parameter is a member of one bucket.
  storage.padding -= storage.bytes;
  return storage;
}

/// How often a function runs in an optimizer step of `microBatches`.
static uint64_t countRuns(Role role, int64_t microBatches) {
  switch (role) {
  case Role::init:
    return 0;
  case Role::next_microbatch:
    return std::max<int64_t>(microBatches - 2, 0);
  case Role::only_microbatch:
  case Role::first_microbatch:
  case Role::last_microbatch:
  case Role::update:
    return 1;
  }
  llvm_unreachable("unknown role");
}

/// `1536 bytes (1.5 KiB)`
static void printBytes(uint64_t bytes, llvm::raw_ostream &stream) {
  stream << bytes << " bytes";
  constexpr const char *units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  const char *unit = nullptr;
  for (const char *next : units) {
    if (value < 1024)
      break;
    value /= 1024;
    unit = next;
  }
  if (unit)
    stream << llvm::format(" (%.1f %s)", value, unit);
}

static void printTraffic(StringRef label, const LinkBytes &bytes,
                         llvm::raw_ostream &stream) {
  stream << label;
  printBytes(bytes.inter, stream);
  stream << " between nodes, ";
  printBytes(bytes.intra, stream);
  stream << " inside a node\n";
}

/// How many buckets are not cut over all ranks.
static void printSharding(ModuleOp module, llvm::raw_ostream &stream) {
  int64_t node = 0, none = 0;
  for (auto bucket : module.getOps<BucketOp>()) {
    node += bucket.getSharding() == Sharding::node;
    none += bucket.getSharding() == Sharding::none;
  }
  if (node != 0)
    stream << "; " << node << " cut over a node's ranks only";
  if (none != 0)
    stream << "; " << none << " whole on every rank";
}

/// How many buckets are gathered or reduced in one step, if any.
static void printCollectives(ModuleOp module, llvm::raw_ostream &stream) {
  llvm::DenseSet<Attribute> flat;
  module.walk([&](Operation *op) {
    auto axes = op->getAttrOfType<ArrayAttr>("axes");
    if (isa<AllGatherOp, ReduceScatterOp>(op) && axes.size() > 1)
      flat.insert(op->getAttr("source"));
  });
  if (!flat.empty())
    stream << "; " << flat.size() << " with flat collectives";
}

static void printStorage(ModuleOp module, llvm::raw_ostream &stream) {
  Storage storage = measureStorage(module);
  stream << "parameters  " << storage.parameters << " (" << storage.trainable
         << " trainable), " << storage.elements << " elements, ";
  printBytes(storage.bytes, stream);
  stream << "\nbuckets     " << storage.buckets << ", padding ";
  printBytes(storage.padding, stream);
  int64_t stored = storage.bytes + storage.padding;
  if (stored != 0)
    stream << llvm::format(", %.2f %% of what is stored",
                           100.0 * static_cast<double>(storage.padding) /
                               static_cast<double>(stored));
  printSharding(module, stream);
  printCollectives(module, stream);
  stream << '\n';
}

/// `arena 2624 bytes (2.6 KiB), 1.2 % over the most in use at once`
static void printRegion(StringRef name, const RegionBytes &region,
                        llvm::raw_ostream &stream) {
  stream << name << ' ';
  printBytes(region.bytes, stream);
  if (region.bound != 0)
    stream << llvm::format(", %.1f %% over the most in use at once",
                           100.0 * static_cast<double>(region.bytes) /
                                   static_cast<double>(region.bound) -
                               100.0);
  stream << '\n';
}

/// `aten.mm.default in @only_microbatch (model.py:12, module 'head')`
static void printPlace(Operation *op, llvm::raw_ostream &stream) {
  if (auto call = dyn_cast<aten::CallOp>(op))
    stream << call.getCallee();
  else
    stream << op->getName();
  stream << " in @" << op->getParentOfType<func::FuncOp>().getName();
  auto file = op->getLoc()->findInstanceOf<FileLineColLoc>();
  auto name = op->getLoc()->findInstanceOf<NameLoc>();
  SmallVector<std::string> parts;
  if (file && file.getLine() != 0)
    parts.push_back(
        (file.getFilename().getValue() + ":" + Twine(file.getLine())).str());
  if (name && !name.getName().empty())
    parts.push_back(("module '" + name.getName().getValue() + "'").str());
  if (!parts.empty())
    stream << " (" << llvm::join(parts, ", ") << ')';
}

/// What is in use where most is, and what is not: gaps between lifetimes,
/// alignment, and what another function needs.
static void printFullest(const DeviceMemory &memory,
                         llvm::raw_ostream &stream) {
  if (!memory.fullest)
    return;
  stream << "            in use at ";
  printPlace(memory.fullest, stream);
  stream << ":\n";
  auto printPart = [&](StringRef name, int64_t bytes) {
    if (bytes == 0)
      return;
    stream << "              " << name << ' ';
    printBytes(bytes, stream);
    stream << '\n';
  };
  for (size_t i = 0; i < kHeldForCount; ++i)
    printPart(getName(static_cast<HeldFor>(i)), memory.held.bytes[i]);
  printPart("unused", memory.total() - memory.held.total());
}

static LogicalResult printMemory(ModuleOp module, llvm::raw_ostream &stream) {
  FailureOr<DeviceMemory> memory = measureDeviceMemory(module);
  if (failed(memory))
    return failure();
  stream << "memory      device ";
  printBytes(memory->total(), stream);
  stream << " per rank, host ";
  printBytes(measureArenas(module).host, stream);
  stream << " per node\n            ";
  printRegion("arena", memory->arena, stream);
  stream << "            ";
  printRegion("pool", memory->pool, stream);
  printFullest(*memory, stream);
  return success();
}

LogicalResult fcdp::printSummary(ModuleOp module, llvm::raw_ostream &stream) {
  printStorage(module, stream);
  if (failed(printMemory(module, stream)))
    return failure();
  MeshOp mesh = getMesh(module);
  int64_t microBatches = getMicroBatches(module);
  LinkBytes step, init;
  for (auto function : module.getOps<func::FuncOp>()) {
    Role role = function->getAttrOfType<RoleAttr>(kRoleAttr).getValue();
    LinkBytes bytes = predictTraffic(function, mesh);
    if (role == Role::init)
      init.add(bytes);
    step.add(bytes, countRuns(role, microBatches));
  }
  printTraffic("step        ", step, stream);
  stream << "            ";
  printBytes(step.deviceToHost, stream);
  stream << " to host memory, ";
  printBytes(step.hostToDevice, stream);
  stream << " from it\n";
  printTraffic("init, once  ", init, stream);
  stream << "            what one node sends or copies, over its "
         << mesh.getLocal() << (mesh.getLocal() == 1 ? " rank\n" : " ranks\n");
  return success();
}

void fcdp::printPrediction(ModuleOp module, const Cluster &cluster,
                           llvm::raw_ostream &stream) {
  CostModel model(cluster);
  auto costOf = [&](Operation *op) { return model.costOf(op); };
  StepProgram program = makeStepProgram(module, costOf);
  StepTimes times = simulateStep(program);
  stream << llvm::format("predicted   %.4g s a step on ", times.seconds)
         << cluster.name << "; exposed";
  bool isAny = false;
  for (unsigned i = 0; i < kNumActivities; ++i) {
    // Less than a thousandth of the step is noise.
    if (times.exposed[i] < times.seconds / 1000)
      continue;
    stream << (isAny ? ", " : " ")
           << stringifyActivity(static_cast<Activity>(i))
           << llvm::format(" %.4g s", times.exposed[i]);
    isAny = true;
  }
  stream << (isAny ? "" : " nothing");
  std::array<double, kNumResources> bounds = boundStep(module, costOf);
  const double *most = llvm::max_element(bounds);
  stream << llvm::format("\n            no schedule takes less than %.4g s: ",
                         *most)
         << kResourceNames[most - bounds.begin()] << '\n';
}
