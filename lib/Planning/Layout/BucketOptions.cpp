// SPDX-License-Identifier: Apache-2.0

#include "fcdp/Planning/Layout/BucketOptions.h"

using namespace mlir;
using namespace fcdp;

LayoutAttr fcdp::getLayout(BucketOp bucket) {
  LayoutAttr layout = bucket.getLayoutAttr();
  return layout ? layout
                : LayoutAttr::get(bucket.getContext(), LayoutKind::flat, 0);
}

bool fcdp::needsMaster(Type storage, Type master) {
  return master && isa<FloatType>(storage) &&
         elementBytes(storage) < elementBytes(master);
}

/// Returns the layout of a bucket that `optimizer`, which may be null, updates,
/// if the option requests `asked`.
static LayoutAttr chooseLayout(Attribute optimizer, LayoutAttr asked) {
  auto settings = dyn_cast_or_null<OptimizerAttrInterface>(optimizer);
  Attribute needed = settings ? settings.getNeededLayout() : Attribute();
  return needed ? cast<LayoutAttr>(needed) : asked;
}

BucketKind fcdp::makeBucketKind(ParameterOp parameter, Type wire, Type gradient,
                                Attribute optimizer,
                                const BucketOptions &options) {
  Type storage = parameter.getTensorType().getElementType();
  BucketKind kind{storage, wire ? wire : storage, gradient,
                  parameter.getTrainable(), !!wire};
  if (kind.trainable && needsMaster(storage, options.master))
    kind.master = options.master;
  if (gradient && options.reduce && gradient != options.reduce)
    kind.gradient = kind.reduce = options.reduce;
  kind.optimizer = optimizer;
  kind.layout = chooseLayout(optimizer, options.layout);
  return kind;
}
