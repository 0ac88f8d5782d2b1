// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// The messages that buckets send between nodes, and their costs. In this
/// class, they are the values themselves. A class for another form of messages
/// overrides its functions. `partBytes` are the bytes of the values that a rank
/// sends to each other node.
class MessageCosts {
public:
  virtual ~MessageCosts() = default;

  /// Returns the cost of a gather while a slice of the bucket is in host
  /// memory, if it refers to that slice and so has a cost of its own.
  virtual std::optional<Cost>
  costOfReferringGather(BucketOp bucket, double partBytes,
                        const CostModel &model) const;

  /// Returns whether each step sums gradients between nodes. With outer steps,
  /// nodes train by themselves.
  virtual bool sumsBetweenNodes() const { return true; }

  /// Returns the cost of a reduction of gradients of type `element`.
  virtual Cost costOfReduction(BucketOp bucket, mlir::Type element,
                               double partBytes, const CostModel &model) const;

  /// Writes the form of messages to each bucket that has a residency and no
  /// form. `model` may be null if the form does not depend on costs.
  virtual void apply(mlir::ModuleOp module, const CostModel *model) const {}
};

} // namespace fcdp
