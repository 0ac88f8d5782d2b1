// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fcdp/Cluster/CostModel.h"

namespace fcdp {

/// The costs of the messages that a bucket sends between nodes. This class
/// prices messages of the values themselves. A class for another form of
/// messages overrides its functions. `partBytes` are the bytes of the values
/// that a rank sends to each other node.
class MessageCosts {
public:
  virtual ~MessageCosts() = default;

  /// Returns the cost of a gather while a slice of the bucket is in host
  /// memory, if it refers to that slice and so has a cost of its own.
  virtual std::optional<Cost>
  costOfReferringGather(BucketOp bucket, double partBytes,
                        const CostModel &model) const;

  /// Returns the cost of a reduction of gradients of type `element`.
  virtual Cost costOfReduction(BucketOp bucket, mlir::Type element,
                               double partBytes, const CostModel &model) const;
};

} // namespace fcdp
