// SPDX-License-Identifier: Apache-2.0
#include "plan/PlanReader.h"

#include "plan/PlanCheck.h"

#include <algorithm>
#include <stdexcept>

namespace fcdp {

namespace {

/// Returns "all-gather of bucket 'blocks.0' over nodes", without the source
/// location.
template <typename Op>
std::string describeBody(const plan::PlanT &plan, plan::OpBody kind,
                         const Op &op) {
  if constexpr (requires { op.callee; })
    return op.callee + (op.overload.empty() ? "" : "." + op.overload);
  if constexpr (requires { op.buffer; })
    return "write of buffer '" + plan.buffers[op.buffer]->name + "'";
  std::string text = plan::EnumNameOpBody(kind);
  bool isCollective = requires { op.axis; };
  std::replace(text.begin(), text.end(), '_', isCollective ? '-' : ' ');
  if constexpr (requires { op.bucket; })
    if (std::optional<uint32_t> bucket = op.bucket)
      text += " of bucket '" + plan.buckets[*bucket]->name + "'";
  if constexpr (requires { op.axis; })
    text += op.axis == plan::Axis::node    ? " over nodes"
            : op.axis == plan::Axis::local ? " within the node"
                                           : " over all ranks";
  return text;
}

std::string describe(const plan::PlanT &plan, const plan::OpT &op) {
  std::string place =
      op.modulePath.empty() ? "" : "module '" + op.modulePath + "'";
  if (!op.loc.empty())
    place += (place.empty() ? "" : ", ") + op.loc;
  return plan::visit(op.body,
                     [&](const auto &body) {
                       return describeBody(plan, op.body.type, body);
                     }) +
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
