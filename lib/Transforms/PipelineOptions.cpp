// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Transforms/PipelineOptions.h"

#include "dialects/Fcdp/Fcdp.h"
#include "fcdp/Cluster/Cluster.h"
#include "fcdp/Cluster/Profile.h"
#include "fcdp/Support/Units.h"
#include "fcdp/Transforms/Options/ActivationsSpec.h"
#include "fcdp/Transforms/Options/FrozenSpec.h"
#include "fcdp/Transforms/Options/GroupSpec.h"
#include "fcdp/Transforms/Options/LayoutSpec.h"
#include "fcdp/Transforms/Options/LossChunkSpec.h"
#include "fcdp/Transforms/Options/OptimizerSpec.h"
#include "fcdp/Transforms/Options/OuterSpec.h"
#include "fcdp/Transforms/Options/PrecisionSpec.h"
#include "fcdp/Transforms/Options/RematSpec.h"
#include "fcdp/Transforms/Options/StatesSpec.h"
#include "fcdp/Transforms/Options/Strategy.h"
#include "fcdp/Transforms/Options/WireSpec.h"
#include "fcdp/Transforms/Options/WrapSpec.h"
#include "llvm/ADT/StringExtras.h"

#include "llvm/ADT/StringExtras.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace fcdp;

//===----------------------------------------------------------------------===//
// Constraints that the table names
//===----------------------------------------------------------------------===//

static llvm::Error checkTarget(StringRef name) {
  if (symbolizeTarget(name))
    return llvm::Error::success();
  return llvm::createStringError("expected 'cpu' or 'cuda', got '" + name +
                                 "'");
}

static llvm::Error checkRemat(StringRef text) {
  return parseRemat(text).takeError();
}

static llvm::Error checkStrategy(StringRef name) {
  if (name == kAutoStrategy)
    return llvm::Error::success();
  return parseStrategy(name).takeError();
}

static llvm::Error checkAccumulation(StringRef name) {
  return parseAccumulation(name).takeError();
}

static llvm::Error checkCollectives(StringRef name) {
  return parseCollectives(name).takeError();
}

static llvm::Error checkGatherWire(StringRef name) {
  return parseGatherWire(name).takeError();
}

static llvm::Error checkReduceWire(StringRef name) {
  return parseReduceWire(name).takeError();
}

static llvm::Error checkCluster(StringRef file) {
  return loadCluster(file).takeError();
}

static llvm::Error checkProfile(StringRef file) {
  return loadProfile(file).takeError();
}

/// Parses in a context of its own.
template <typename Parse>
static llvm::Error checkAttribute(StringRef text, Parse parse) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<FcdpDialect>();
  return parse(text, &context).takeError();
}

static llvm::Error checkOuter(StringRef text) {
  return checkAttribute(text, parseOuter);
}

static llvm::Error checkLayout(StringRef text) {
  return checkAttribute(text, parseLayout);
}

static llvm::Error checkGroups(StringRef text) {
  if (text.empty())
    return llvm::createStringError("expected a group, got ''");
  return parseGroups(text).takeError();
}

static llvm::Error checkMaster(StringRef text) {
  return checkAttribute(text, parseMaster);
}

static llvm::Error checkReduceType(StringRef text) {
  return checkAttribute(text, parseReduceType);
}

static llvm::Error checkWrap(StringRef text) {
  return parseWrap(text).takeError();
}

static llvm::Error checkLossScale(StringRef text) {
  return parseLossScale(text).takeError();
}

static llvm::Error checkFrozen(StringRef text) {
  return parseFrozen(text).takeError();
}

static llvm::Error checkFuse(StringRef text) {
  if (text == "off" || text == "exact")
    return llvm::Error::success();
  return llvm::createStringError("expected 'off' or 'exact', got '" + text +
                                 "'");
}

static llvm::Error checkActivations(StringRef text) {
  return parseActivations(text).takeError();
}

static llvm::Error checkLossChunk(StringRef text) {
  return parseLossChunk(text).takeError();
}

static llvm::Error checkStates(StringRef text) {
  return parseStates(text).takeError();
}

static llvm::Error checkUpdate(StringRef text) {
  return parseUpdate(text).takeError();
}

static llvm::Error checkOptimizer(StringRef text) {
  return checkAttribute(text, parseOptimizers);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

template <auto Field, int64_t Least>
static llvm::Error readInteger(StringRef text, PipelineOptions &options) {
  static_assert(Least == 0 || Least == 1);
  std::optional<int64_t> value = parseInteger(text);
  if (!value || *value < Least)
    return llvm::createStringError(
        "expected " + Twine(Least ? "a positive number" : "0 or more") +
        ", got '" + text + "'");
  options.*Field = *value;
  return llvm::Error::success();
}

template <auto Field>
static llvm::Error readPositive(StringRef text, PipelineOptions &options) {
  double value;
  if (text.getAsDouble(value) || !std::isfinite(value) || value <= 0)
    return llvm::createStringError("expected a positive number, got '" + text +
                                   "'");
  options.*Field = value;
  return llvm::Error::success();
}

template <auto Field, llvm::Error (*Check)(StringRef) = nullptr>
static llvm::Error readText(StringRef text, PipelineOptions &options) {
  if constexpr (Check != nullptr)
    if (llvm::Error error = Check(text))
      return error;
  options.*Field = text.str();
  return llvm::Error::success();
}

#define GET_PipelineOptionTable_IMPL
#include "fcdp/Transforms/PipelineOptionTable.inc"

/// Returns whether the index of each row is its id. TableGen sorts both the
/// enum and the table by the names of the records.
static constexpr bool isIndexedById() {
  for (size_t i = 0; i < std::size(PipelineOptionTable); ++i)
    if (PipelineOptionTable[i].id != i)
      return false;
  return true;
}
static_assert(isIndexedById());

llvm::ArrayRef<PipelineOption> fcdp::getPipelineOptions() {
  return PipelineOptionTable;
}

const PipelineOption &fcdp::getPipelineOption(option::OptionId id) {
  return PipelineOptionTable[id];
}

static llvm::Error nameOption(StringRef name, llvm::Error error) {
  return llvm::createStringError(name + ": " + toString(std::move(error)));
}

/// Takes the numbers that are not given from the cluster, which must be
/// readable.
static void takeCounts(StepOptions &options) {
  PipelineOptions &pipeline = options.pipeline;
  Cluster cluster = llvm::cantFail(loadCluster(pipeline.cluster));
  if (!options.isGiven(option::Nodes))
    pipeline.nodes = cluster.nodes;
  if (!options.isGiven(option::RanksPerNode))
    pipeline.ranksPerNode = cluster.ranksPerNode;
}

bool StepOptions::leavesStrategyOpen() const {
  // Outer steps need a sharding that 'auto' does not look for.
  return !isGiven(option::Strategy) && !isGiven(option::Outer);
}

llvm::Error fcdp::applySettings(StringRef settings, StepOptions &options) {
  for (StringRef setting : llvm::split(settings, '+')) {
    StringRef name = setting.split('=').first;
    StringRef value = setting.split('=').second;
    const auto *option =
        llvm::find_if(getPipelineOptions(), [&](const PipelineOption &row) {
          return row.name == name;
        });
    if (option == getPipelineOptions().end() || value.empty())
      return llvm::createStringError(
          "expected NAME=VALUE with the name of an option, got '" + setting +
          "'");
    if (llvm::Error error = option->read(value, options.pipeline))
      return nameOption(name, std::move(error));
    options.given.insert(option->id);
  }
  return llvm::Error::success();
}

llvm::Expected<StepOptions> fcdp::readStepOptions(GetOptionText getText) {
  StepOptions options;
  for (const PipelineOption &option : getPipelineOptions()) {
    std::optional<StringRef> text = getText(option);
    if (!text)
      continue;
    if (llvm::Error error = option.read(*text, options.pipeline))
      return nameOption(option.name, std::move(error));
    options.given.insert(option.id);
  }
  if (options.isGiven(option::ClusterFile))
    takeCounts(options);
  return options;
}

StringRef fcdp::findChoiceForCluster(const PipelineOptions &options) {
  for (auto [name, value] : {std::pair("strategy", &options.strategy),
                             std::pair("collectives", &options.collectives),
                             std::pair("wire", &options.wire),
                             std::pair("activations", &options.activations),
                             std::pair("remat", &options.remat)})
    if (*value == kAutoStrategy)
      return name;
  return "";
}

LogicalResult fcdp::checkOption(ModuleOp module, StringRef name,
                                StringRef text) {
  PipelineOptions ignored;
  const auto *option =
      llvm::find_if(getPipelineOptions(), [&](const PipelineOption &row) {
        return row.name == name;
      });
  if (llvm::Error error = option->read(text, ignored))
    return module.emitError(toString(nameOption(name, std::move(error))));
  return success();
}
