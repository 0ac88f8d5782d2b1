// SPDX-License-Identifier: Apache-2.0
#include "plan/PlanReader.h"

#include "plan/PlanCheck.h"

#include <stdexcept>

namespace fcdp {

namespace {

/// "all-gather of bucket 'blocks.0' over nodes", without the place.
class Describe {
public:
  Describe(const plan::PlanT &plan, const plan::OpT &op) : plan(plan), op(op) {}

  std::string operator()(const plan::AtenCallT &call) const {
    return call.callee + (call.overload.empty() ? "" : "." + call.overload);
  }
  std::string operator()(const plan::ShardUpdateT &update) const {
    return "shard update" + of(update.bucket);
  }
  std::string operator()(const plan::AllGatherT &gather) const {
    return "all-gather" + of(gather.bucket) + over(gather.axis);
  }
  std::string operator()(const plan::ReduceScatterT &reduce) const {
    return "reduce-scatter" + of(reduce.bucket) + over(reduce.axis);
  }
  std::string operator()(const plan::CacheCopyT &copy) const {
    bool stores = op.body.type == plan::OpBody::cache_store;
    return (stores ? "cache store" : "cache load") + of(copy.bucket);
  }
  std::string operator()(const plan::WriteBufferT &write) const {
    return "write of buffer '" + plan.buffers[write.buffer]->name + "'";
  }
  template <typename Other>
  std::string operator()(const Other &) const {
    return plan::EnumNameOpBody(op.body.type);
  }

private:
  std::string of(size_t bucket) const {
    return " of bucket '" + plan.buckets[bucket]->name + "'";
  }
  static std::string over(plan::Axis axis) {
    return axis == plan::Axis::node    ? " over nodes"
           : axis == plan::Axis::local ? " within the node"
                                       : " over all ranks";
  }

  const plan::PlanT &plan;
  const plan::OpT &op;
};

std::string describe(const plan::PlanT &plan, const plan::OpT &op) {
  std::string place =
      op.modulePath.empty() ? "" : "module '" + op.modulePath + "'";
  if (!op.loc.empty())
    place += (place.empty() ? "" : ", ") + op.loc;
  return visitBody(op, Describe(plan, op)) +
         (place.empty() ? "" : " (" + place + ")");
}

} // namespace

StepPlan loadPlan(std::span<const std::byte> bytes, std::string_view hash,
                  std::span<const std::byte> constants) {
  StepPlan step;
  step.hash = hashBytes(bytes);
  if (step.hash != hash)
    throw std::runtime_error("plan: expected the hash " + step.hash + ", got " +
                             std::string(hash) +
                             ": the object is damaged or was edited; compile "
                             "it again");
  const plan::Plan &checked = verifyPlan(bytes);
  checked.UnPackTo(&step);
  step.mesh = {step.nodes, step.ranksPerNode};
  for (const auto &function : step.functions)
    step.reservations.emplace_back(function->reserved);
  checkPlan(step, constants);
  step.descriptions.reserve(step.ops.size());
  for (const auto &op : step.ops)
    step.descriptions.push_back(describe(step, *op));
  return step;
}

} // namespace fcdp
