// SPDX-License-Identifier: Apache-2.0
#include "plan/StepPlan.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp {

static_assert(size_t(plan::DType::MAX) + 1 == kNumDTypes);
static_assert(size_t(plan::Stream::MAX) + 1 == kNumStreams);
static_assert(size_t(plan::Axis::MAX) + 1 == kNumAxes);

double learningRate(const plan::OptimizerUnion &optimizer) {
  return plan::visit(optimizer, [](const auto &table) { return table.lr; });
}

double weightDecay(const plan::OptimizerUnion &optimizer) {
  return plan::visit(optimizer,
                     [](const auto &table) { return table.weightDecay; });
}

plan::OptimizerFacts factsOf(const plan::OptimizerUnion &optimizer) {
  return plan::visit(optimizer,
                     [](const auto &table) { return plan::factsOf(table); });
}

std::optional<size_t> StepPlan::kernelOf(const plan::AtenCallT &call) const {
  if (call.callee != "fcdp::kernel")
    return std::nullopt;
  for (size_t i = 0; i < kernels.size(); ++i)
    if (kernels[i]->name == call.overload)
      return i;
  throw std::runtime_error("expected a kernel '" + call.overload +
                           "' in the plan");
}

double StepPlan::learningRate() const { return fcdp::learningRate(optimizer); }

const plan::OptimizerUnion &
StepPlan::optimizerOf(const plan::ShardUpdateT &op) const {
  return op.optimizer.type == plan::Optimizer::NONE ? optimizer : op.optimizer;
}

const plan::ShardUpdateT *StepPlan::updateOf(const plan::OpT &op) {
  if (const auto *onHost = op.body.Ashost_update())
    return onHost->update.get();
  return op.body.Asshard_update();
}

uint32_t countParts(plan::Sharding sharding, const Mesh &mesh) {
  switch (sharding) {
  case plan::Sharding::world:
    return mesh.size();
  case plan::Sharding::node:
    return mesh.locals;
  case plan::Sharding::none:
    return 1;
  }
  throw std::logic_error("unknown sharding");
}

uint32_t partOf(plan::Sharding sharding, const Mesh &mesh, Place place) {
  switch (sharding) {
  case plan::Sharding::world:
    return place.local * mesh.nodes + place.node;
  case plan::Sharding::node:
    return place.local;
  case plan::Sharding::none:
    return 0;
  }
  throw std::logic_error("unknown sharding");
}

int64_t numElements(const Shape &shape) {
  int64_t elements = 1;
  for (int64_t extent : shape)
    elements *= extent;
  return elements;
}

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

const plan::State *findState(const plan::BucketT &bucket,
                             plan::StateRole role) {
  auto found = std::find_if(
      bucket.states.begin(), bucket.states.end(),
      [&](const plan::State &state) { return state.role() == role; });
  return found == bucket.states.end() ? nullptr : &*found;
}

StreamId streamOf(const plan::OpT &op) {
  return plan::visit(op.body, [](const auto &body) {
    if constexpr (requires { body.stream; })
      return toStream(body.stream);
    else
      return StreamId::Compute;
  });
}

size_t StepPlan::indexOf(plan::Role role, uint32_t variant) const {
  auto found =
      std::find_if(functions.begin(), functions.end(), [&](const auto &f) {
        return f->role == role && f->variant == variant;
      });
  if (found == functions.end())
    throw std::logic_error(std::string("the plan has no function ") +
                           plan::EnumNameRole(role) + " of variant " +
                           std::to_string(variant));
  return found - functions.begin();
}

uint32_t StepPlan::numVariants() const {
  uint32_t last = 0;
  for (const auto &function : functions)
    if (isMicrobatch(function->role) && !isOuter(function->role))
      last = std::max(last, function->variant);
  return last + 1;
}

std::vector<uint32_t> StepPlan::outerFragments(int64_t step) const {
  std::vector<uint32_t> due;
  int64_t after = overlapsOuter() ? step - 1 : step;
  for (uint32_t p = 0; after > 0 && outer && p < outer->fragments; ++p) {
    int64_t since = after - int64_t(p) * outer->every / outer->fragments;
    if (since >= 0 && since % outer->every == 0)
      due.push_back(p);
  }
  return due;
}

/// Returns the role of the function that runs micro-batch k of a step. The last
/// one may contain an outer update.
static plan::Role roleOf(int64_t k, int64_t microBatches, bool hasOuter) {
  if (microBatches == 1)
    return hasOuter ? plan::Role::only_outer_microbatch
                    : plan::Role::only_microbatch;
  if (k == 0)
    return plan::Role::first_microbatch;
  if (k + 1 < microBatches)
    return plan::Role::next_microbatch;
  return hasOuter ? plan::Role::last_outer_microbatch
                  : plan::Role::last_microbatch;
}

StepRun StepPlan::stepRun(uint32_t variant,
                          std::span<const uint32_t> fragments) const {
  StepRun run;
  run.number = variant;
  const bool isOverlapped = overlapsOuter() && !fragments.empty();
  run.microBatches.reserve(microBatches);
  for (int64_t k = 0; k < int64_t(microBatches); ++k) {
    plan::Role role = roleOf(k, microBatches, isOverlapped);
    run.microBatches.push_back(
        {role, isOuter(role) ? fragments.front() : variant});
  }
  if (!overlapsOuter())
    for (uint32_t fragment : fragments)
      run.behind.push_back({plan::Role::outer_update, fragment});
  run.kind = kindOf(run.microBatches.back());
  return run;
}

plan::Role StepPlan::outerRole() const {
  return !overlapsOuter()    ? plan::Role::outer_update
         : microBatches == 1 ? plan::Role::only_outer_microbatch
                             : plan::Role::last_outer_microbatch;
}

std::vector<StepFunction> StepPlan::functionsOfSteps() const {
  using plan::Role;
  std::vector<Role> batches = {Role::only_microbatch};
  if (microBatches > 1)
    batches = {Role::first_microbatch, Role::last_microbatch};
  if (microBatches > 2)
    batches.push_back(Role::next_microbatch);
  std::vector<StepFunction> all = {{Role::init}, {Role::update}};
  for (uint32_t variant = 0; variant < numVariants(); ++variant)
    for (Role role : batches)
      all.push_back({role, variant});
  for (uint32_t fragment = 0; outer && fragment < outer->fragments; ++fragment)
    all.push_back({outerRole(), fragment});
  return all;
}

std::string StepPlan::describe(StepFunction function) const {
  std::string text = std::string("'") + plan::EnumNameRole(function.role) + "'";
  if (isOuter(function.role))
    text += " of fragment " + std::to_string(function.number);
  else if (isMicrobatch(function.role) && numVariants() > 1)
    text += " of variant " + std::to_string(function.number);
  return text;
}

size_t StepPlan::numKinds() const {
  return numVariants() + (overlapsOuter() ? outer->fragments : 0);
}

size_t StepPlan::kindOf(StepFunction function) const {
  return isOuter(function.role) ? numVariants() + function.number
                                : function.number;
}

bool StepPlan::isShared(StepFunction function) const {
  if (overlapsOuter() && !isOuter(function.role))
    return function.role != plan::Role::only_microbatch &&
           function.role != plan::Role::last_microbatch;
  return numVariants() > 1 && !isMicrobatch(function.role);
}

std::string StepPlan::nameOf(StepFunction function) const {
  std::string name = plan::EnumNameRole(function.role);
  bool isOneOfSeveral = isOuter(function.role)
                            ? outer->fragments > 1
                            : isMicrobatch(function.role) && numVariants() > 1;
  return isOneOfSeveral ? name + "." + std::to_string(function.number) : name;
}

size_t StepPlan::memoryOfInput(size_t index) const {
  const size_t count = numStepInputs(), variants = numVariants();
  return index < count * variants ? (variants - 1) * count + index % count
                                  : index;
}

bool StepPlan::trains() const {
  auto hasLoss = [this](const auto &function) {
    return !isEvaluation(function->role) &&
           std::any_of(ops.begin() + function->first,
                       ops.begin() + function->end, [](const auto &op) {
                         return op->body.type == plan::OpBody::loss;
                       });
  };
  return std::any_of(functions.begin(), functions.end(), hasLoss);
}

bool StepPlan::evaluates() const {
  return std::any_of(functions.begin(), functions.end(),
                     [](const auto &f) { return isEvaluation(f->role); });
}

size_t StepPlan::numStepInputs() const {
  return std::count_if(inputs.begin(), inputs.end(), [](const auto &input) {
    return !input->evaluation && input->variant == 0;
  });
}

StepPlan::Inputs StepPlan::stepInputs(uint32_t variant) const {
  size_t count = numStepInputs();
  return Inputs(inputs).subspan(variant * count, count);
}

std::vector<StepPlan::Inputs> StepPlan::inputsOfShapes() const {
  std::vector<Inputs> all;
  for (uint32_t variant = 0; variant < numVariants(); ++variant)
    all.push_back(stepInputs(variant));
  return all;
}

StepPlan::Inputs StepPlan::evaluationInputs() const {
  return Inputs(inputs).subspan(numVariants() * numStepInputs());
}

std::vector<size_t> StepPlan::stateBuffers() const {
  std::vector<size_t> states;
  for (size_t i = 0; i < buffers.size(); ++i)
    if ((!buffers[i]->evaluation && buffers[i]->variant == 0) ||
        !buffers[i]->constantOffset)
      states.push_back(i);
  return states;
}

uint64_t StepPlan::gradientBytes() const {
  uint64_t elements = 0;
  for (const auto &bucket : buckets)
    if (bucket->trainable)
      elements += bucket->shardElements;
  return elements * sizeof(float);
}

uint32_t StepPlan::ranks(AxisId axis) const {
  switch (axis) {
  case AxisId::Node:
    return mesh.nodes;
  case AxisId::Local:
    return mesh.locals;
  case AxisId::World:
    return mesh.size();
  }
  return 1;
}

size_t StepPlan::weightIn(Inputs inputs) const {
  return std::find_if(
             inputs.begin(), inputs.end(),
             [this](const auto &input) { return input->name == lossWeight; }) -
         inputs.begin();
}

bool StepPlan::uses(plan::OpBody kind) const {
  return std::any_of(ops.begin(), ops.end(),
                     [&](const auto &op) { return op->body.type == kind; });
}

bool StepPlan::uses(plan::OpBody kind, AxisId axis) const {
  return std::any_of(ops.begin(), ops.end(), [&](const auto &op) {
    return op->body.type == kind &&
           plan::visit(op->body, [&](const auto &body) {
             if constexpr (requires { body.axis; })
               return toAxis(body.axis) == axis;
             else
               return false;
           });
  });
}

StepPlan::HostPart StepPlan::hostPart(Place place) const {
  HostPart part{hostBytes, 0};
  auto add = [&](const plan::Buf &buf) {
    if (buf.arena() != plan::Arena::host || buf.bytes() == 0)
      return;
    uint64_t begin = offsetOn(buf, place);
    part.begin = std::min(part.begin, begin);
    part.end = std::max(part.end, begin + buf.bytes());
  };
  for (const auto &bucket : buckets)
    for (const plan::State &state : bucket->states)
      add(state.buf());
  if (fileWindow)
    add(*fileWindow);
  for (const auto &op : ops)
    if (const auto *copy = op->body.Ascache_store())
      add(copy->out);
    else if (const auto *store = op->body.Asstore_value())
      add(store->out);
    else if (const auto *gradient = op->body.Asstore_gradient()) {
      add(gradient->gradOut);
      if (gradient->shardOut)
        add(*gradient->shardOut);
    }
  return part.begin < part.end ? part : HostPart{};
}

std::set<uint64_t> StepPlan::messageBytes(plan::OpBody kind,
                                          AxisId axis) const {
  std::set<uint64_t> sizes;
  for (const auto &op : ops) {
    const auto *gather = op->body.Asall_gather();
    const auto *reduction = op->body.Asreduce_scatter();
    if (op->body.type != kind)
      continue;
    if (gather && toAxis(gather->axis) == axis)
      sizes.insert(gather->in.bytes());
    if (reduction && toAxis(reduction->axis) == axis)
      sizes.insert(reduction->in.bytes() / ranks(axis));
  }
  return sizes;
}

} // namespace fcdp
