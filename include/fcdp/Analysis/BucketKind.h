// SPDX-License-Identifier: Apache-2.0
//
// The rule for parameters that share a bucket. --fcdp-bucket builds buckets by
// it, and rematerialization counts gathers by it before buckets exist.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Types.h"

#include <map>
#include <tuple>

namespace fcdp {

/// The properties, besides the unit, that the parameters of one bucket share.
struct BucketKind {
  /// The element types of shards, of gathers and of gradients; `gradient` is
  /// null where there is none.
  mlir::Type storage, wire, gradient;
  bool trainable = false;
  /// Whether a function reads them, so that they are gathered at all.
  bool gathered = false;
  /// The type of the optimizer's master copy of them; null without one.
  mlir::Type master = {};
  /// The type to which gradients are converted for reductions; null if they are
  /// reduced as they are. `gradient` is the type after this.
  mlir::Type reduce = {};
  /// The optimizer that updates them, if any does.
  mlir::Attribute optimizer = {};
  /// The blocks of them that are never split; null while that is undecided.
  mlir::Attribute layout = {};

  /// An arbitrary order, so that kinds can be keys of maps.
  bool operator<(const BucketKind &other) const {
    return getKey() < other.getKey();
  }

private:
  std::tuple<const void *, const void *, const void *, bool, bool, const void *,
             const void *, const void *, const void *>
  getKey() const {
    return {storage.getAsOpaquePointer(),
            wire.getAsOpaquePointer(),
            gradient.getAsOpaquePointer(),
            trainable,
            gathered,
            master.getAsOpaquePointer(),
            reduce.getAsOpaquePointer(),
            optimizer.getAsOpaquePointer(),
            layout.getAsOpaquePointer()};
  }
};

/// Numbers buckets: parameters of one unit and one kind share a bucket.
class BucketNumbering {
public:
  /// Returns the number of the bucket, in the order of first calls from 0.
  size_t get(mlir::StringAttr unit, const BucketKind &kind) {
    return numbers.insert({{unit.getAsOpaquePointer(), kind}, numbers.size()})
        .first->second;
  }

private:
  std::map<std::pair<const void *, BucketKind>, size_t> numbers;
};

} // namespace fcdp
