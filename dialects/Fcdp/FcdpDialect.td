// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_DIALECT
#define FCDP_FCDP_DIALECT

include "mlir/IR/OpBase.td"

def Fcdp_Dialect : Dialect {
  let name = "fcdp";
  let cppNamespace = "::fcdp";
  let summary = "sharded parameters, their collectives and their copies";
  let description = [{
    A training step passes through four phases. The module's attribute
    `fcdp.phase` names the current one, and every operation has traits that say
    in which phases it may appear.

    1. **imported**: one function `@step` computes loss and gradients of one rank's
       micro-batch. Parameters, buffers and inputs are symbols. A function `@evaluate`,
       if there is one, computes only a loss, of the same parameters. A step of several
       shapes has a function for each: `@step`, `@step.1` and so on, from the smallest
       to the greatest.
    2. **sharded**: parameters are sharded over a mesh and grouped in buckets.
       Gathers, reductions, host-cache copies and the optimizer are operations
       with value semantics. The step is a family of functions.
    3. **scheduled**: communication and copies run on named streams, waits are
       explicit, and the order of operations is the order of issue. A function
       returns a token for work that is still in flight at its end, and the
       next function takes the token as an argument.
    4. **planned**: every buffer has a location in an arena, and every token is
       an event. `fcdp.event` on an argument is the event of the live-in token.

    Operations may have the following attributes. Any other `fcdp` attribute is an
    error. Passes write them, and an attribute that is given takes precedence over a
    pass's own choice.

    | attribute | on | value |
    |---|---|---|
    | `fcdp.phase` | module | the phase |
    | `fcdp.archive` | module | string: the archive with the weights, a path as the user gave it |
    | `fcdp.evaluation_archive` | module | string: the archive of the evaluation |
    | `fcdp.variant_archives` | module | array of strings: the archives of variants 1 and on |
    | `fcdp.target` | module | string: the device that the step runs on, `cpu` (default) or `cuda` |
    | `fcdp.remat` | module | string: the part of the forward pass that is recomputed, as the option `remat` has it |
    | `fcdp.activations` | module | string: where values of the forward pass are kept for the backward pass, as the option `activations` has it |
    | `fcdp.loss_weight` | module | string: the input of the step, and of its evaluation, whose sum is the weight of a micro-batch's loss |
    | `fcdp.loss_chunk` | module | string: the rows of a chunk of logits, as the option `loss-chunk` has it |
    | `fcdp.frozen` | module | string: how frozen matrices are packed, as the option `frozen` has it |
    | `fcdp.fuse` | module | string: whether pointwise operators became kernels, as the option `fuse` has it |
    | `fcdp.micro_batches` | module | positive `i64`: micro-batches per optimizer step (default: 1) |
    | `fcdp.clip_norm` | module | finite, positive `f64`: the norm that all gradients are clipped to; absent: they are not clipped |
    | `fcdp.outer` | module | an outer optimizer: nodes train by themselves, and it synchronizes them after some steps |
    | `fcdp.own_scale` | update, clipping | unit: `scale` is the user's own; otherwise it is 1 / (ranks x micro-batches), where outer steps count only the ranks of a node |
    | `fcdp.wrap` | module | string: which parameters are gathered together, as the option `wrap` has it; absent: the parameters of a unit |
    | `fcdp.bucket_bytes` | module | positive `i64`: the limit on the size of merged buckets in bytes |
    | `fcdp.open_sharding` | module | unit: `--fcdp-decide` may change the sharding of buckets |
    | `fcdp.open_merging` | module | unit: `--fcdp-decide` may merge buckets |
    | `fcdp.strategy` | module | string: the preset that was applied, or `auto` |
    | `fcdp.prefetch` | module, gather, load | `i64` from 0 on: units that gathers are issued ahead, by default or for one copy |
    | `fcdp.prefetched` | module | unit: gathers have been moved ahead |
    | `fcdp.reductions` | module, accumulate, store | positive `i64`: units whose reductions may run at once, by default or for one accumulator |
    | `fcdp.role` | function | the role in the family of functions |
    | `fcdp.variant` | function | `i64` from 0 on: the variant of a step of several shapes that this micro-batch is of, or the fragment that this outer update synchronizes |
    | `fcdp.recompute` | `aten.call` | bool: the backward pass computes this call of the forward pass again |
    | `fcdp.on_host` | `aten.call` | `array<i64>`: the numbers of the results, in order, that are in host memory between the forward and the backward pass |
    | `fcdp.checkpoint_region` | `aten.call` | `i64` from 0 on: the part of the model that called `torch.utils.checkpoint` around this call |
    | `fcdp.repeated` | `aten.call` | unit: the call recomputes one of the forward pass |
    | `fcdp.dim_order` | `aten.call` | `array<i64>`: dimensions of the first result in memory order, outermost first; absent if they are in order |
    | `fcdp.parameters` | `aten.call` | array: for each operand the parameter that it is a view of, or a unit; absent if there is none |
    | `fcdp.gradients` | `aten.call` | array: for each result the parameters that it is the gradient of, as an array; absent if there is none |
  }];
  // The bodies of kernels.
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
  let discardableAttrs = (ins
    "::fcdp::PhaseAttr":$phase,
    "::mlir::StringAttr":$archive,
    "::mlir::StringAttr":$evaluation_archive,
    "::mlir::ArrayAttr":$variant_archives,
    "::mlir::StringAttr":$target,
    "::mlir::StringAttr":$remat,
    "::mlir::StringAttr":$activations,
    "::mlir::StringAttr":$wrap,
    "::mlir::StringAttr":$loss_weight,
    "::mlir::StringAttr":$loss_chunk,
    "::mlir::StringAttr":$frozen,
    "::mlir::StringAttr":$fuse,
    "::mlir::IntegerAttr":$micro_batches,
    "::mlir::FloatAttr":$clip_norm,
    "::fcdp::OuterAttr":$outer,
    "::mlir::UnitAttr":$own_scale,
    "::mlir::IntegerAttr":$bucket_bytes,
    "::mlir::UnitAttr":$open_sharding,
    "::mlir::UnitAttr":$open_merging,
    "::mlir::StringAttr":$strategy,
    "::mlir::IntegerAttr":$prefetch,
    "::mlir::UnitAttr":$prefetched,
    "::mlir::IntegerAttr":$reductions,
    "::fcdp::RoleAttr":$role,
    "::mlir::IntegerAttr":$variant,
    "::mlir::BoolAttr":$recompute,
    "::mlir::DenseI64ArrayAttr":$on_host,
    "::mlir::IntegerAttr":$checkpoint_region,
    "::mlir::UnitAttr":$repeated,
    "::mlir::DenseI64ArrayAttr":$dim_order,
    "::mlir::ArrayAttr":$parameters,
    "::mlir::ArrayAttr":$gradients);
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

#endif // FCDP_FCDP_DIALECT
