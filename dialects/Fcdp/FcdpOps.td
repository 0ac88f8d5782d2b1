// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_OPS
#define FCDP_FCDP_OPS

include "dialects/Fcdp/FcdpSymbols.td"

//===----------------------------------------------------------------------===//
// Imported: functions read and write through symbols.
//===----------------------------------------------------------------------===//

class Fcdp_ReadOp<string what, list<Trait> traits>
    : Fcdp_UserOp<"read_" # what, !listconcat([TakesNoTime], traits)> {
  let summary = "read " # !if(!eq(what, "input"), "an ", "a ") # what;
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<State>]>:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fcdp_ReadParameterOp : Fcdp_ReadOp<"parameter", [InImported]> {
  let description = [{
    Example:
    ```mlir
    %w = fcdp.read_parameter @fc.weight : tensor<3x4xf32>
    ```

    Constraints:
    - (C1) `source` is a parameter of the result's type.
  }];
}
def Fcdp_ReadBufferOp : Fcdp_ReadOp<"buffer", !listconcat([RunsNothing], Always)> {
  let description = [{
    Example:
    ```mlir
    %m = fcdp.read_buffer @bn.running_mean : tensor<8xf32>
    ```

    Constraints:
    - (C1) `source` is a buffer of the result's type.
  }];
}
def Fcdp_ReadInputOp : Fcdp_ReadOp<"input", !listconcat([RunsNothing], Always)> {
  let description = [{
    Example:
    ```mlir
    %ids = fcdp.read_input @ids : tensor<4x128xi64>
    ```

    Constraints:
    - (C1) `source` is an input of the result's type.
  }];
}

def Fcdp_ReadLossScaleOp : Fcdp_Op<"read_loss_scale", !listconcat(
    [MemoryEffects<[MemRead<State>]>, TakesNoTime, RunsNothing], Always)> {
  let summary = "read the factor by which the loss is scaled";
  let description = [{
    The backward pass begins with the loss scale instead of 1, so that small gradients
    do not become zero in f16. `fcdp.unscale_gradients` divides by it. The program that
    runs the step sets it before each step. In practice it is a power of two, so
    multiplying by it is exact.

    Example:
    ```mlir
    %s = fcdp.read_loss_scale : tensor<f32>
    ```
  }];
  let results = (outs 0DTensorOf<[F32]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Fcdp_ReadLossWeightOp : Fcdp_Op<"read_loss_weight", !listconcat(
    [MemoryEffects<[MemRead<State>]>, TakesNoTime, RunsNothing], Always)> {
  let summary = "read the factor by which the micro-batch's loss counts";
  let description = [{
    The backward pass begins with this factor, times the loss scale if there is one. So
    the mean of the gradients over ranks and micro-batches is the gradient of the mean
    loss, weighted by the input that `fcdp.loss_weight` names. The program that runs the
    step sets it before each micro-batch: the micro-batch's weight, divided by the mean
    weight of all micro-batches of the step on all ranks. If the factor is 0, packs of
    gradients are filled with zeros, even if gradients are NaN.

    Example:
    ```mlir
    %f = fcdp.read_loss_weight : tensor<f32>
    ```
  }];
  let results = (outs 0DTensorOf<[F32]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Fcdp_GradientOp : Fcdp_UserOp<"gradient",
    [InImported, MemoryEffects<[MemWrite<State>]>, TakesNoTime]> {
  let summary = "define this rank's gradient of a parameter";
  let description = [{
    Example:
    ```mlir
    fcdp.gradient %g of @fc.weight : tensor<3x4xf32>
    ```

    Constraints:
    - (C1) `parameter` is a trainable parameter of the gradient's shape.
  }];
  let arguments = (ins RankedTensorOf<[AnyFloat]>:$value, FlatSymbolRefAttr:$parameter);
  let assemblyFormat = "$value `of` $parameter attr-dict `:` type($value)";
}

def Fcdp_LossOp : Fcdp_Op<"loss", !listconcat(
    [MemoryEffects<[MemWrite<State>]>, RunsOperators, TakesNoTime], Always)> {
  let summary = "define this rank's loss of the micro-batch";
  let description = [{
    Example:
    ```mlir
    fcdp.loss %l : tensor<f32>
    ```

    Constraints:
    - (C1) The loss has one element of a floating-point type.
  }];
  let arguments = (ins AnyRankedTensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Fcdp_WriteBufferOp : Fcdp_UserOp<"write_buffer", !listconcat(
    [RunsOperators, Fcdp_Work<"memory">], Always)> {
  let summary = "assign the next value of a buffer";
  let description = [{
    Example:
    ```mlir
    fcdp.write_buffer %m to @bn.running_mean : tensor<8xf32>
    ```

    Constraints:
    - (C1) `target` is a mutable buffer of the value's type.
  }];
  let arguments = (ins AnyRankedTensor:$value,
                       Arg<FlatSymbolRefAttr, "", [MemWrite<State>]>:$target);
  let assemblyFormat = "$value `to` $target attr-dict `:` type($value)";
}

//===----------------------------------------------------------------------===//
// Sharded: collectives, host-cache copies, optimizer.
//===----------------------------------------------------------------------===//

def Fcdp_ReadShardOp : Fcdp_UserOp<"read_shard", !listconcat(
    [FetchOpInterface, StorageOpInterface, TakesNoTime, RunsNothing], FromSharded)> {
  let summary = "read this rank's shard of a parameter or bucket";
  let description = [{
    Example:
    ```mlir
    %s = fcdp.read_shard @fc.weight : !fcdp.shard<tensor<3x4xf32>>
    %b = fcdp.read_shard @bucket.fc : tensor<16xf32>
    ```

    Constraints:
    - (C1) The result is a shard of the parameter's type or, for a bucket, has
      the type of its state `shard`.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<State>]>:$source);
  let results = (outs Fcdp_AnyShard:$result);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fcdp_ReadStateOp : Fcdp_UserOp<"read_state", !listconcat(
    [FetchOpInterface, StorageOpInterface, TakesNoTime, RunsNothing], FromSharded)> {
  let summary = "read a state";
  let description = [{
    The result is a view of the state's memory.

    Example:
    ```mlir
    %slice = fcdp.read_state @bucket.fc.resident : tensor<32xf32>
    ```

    Constraints:
    - (C1) `source` is a state of role `resident`, `prefetched`, `node_grad` or `full_grad`
      with the result's type.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<State>]>:$source);
  let results = (outs Fcdp_FlatState:$result);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fcdp_CastShardOp : Fcdp_Op<"cast_shard", !listconcat(
    [Pure, FetchOpInterface, BufferedOpInterface, Fcdp_Work<"memory">],
    FromSharded)> {
  let summary = "convert a shard to another type";
  let description = [{
    Rounds to nearest even. A cast before a gather gives the same result as one
    after it, and gathers fewer bytes. A cast to the same type folds to its input,
    unless it has a buffer or reads a view of a state.

    Example:
    ```mlir
    %h = fcdp.cast_shard %s : tensor<16xf32> to tensor<16xbf16>
    ```

    Constraints:
    - (C1) Input and result differ in their element type only.
    - (C2) `buffer`, where given, is device memory for the result.
  }];
  let arguments = (ins Fcdp_AnyShard:$input, OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Fcdp_AnyShard:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Fcdp_AllGatherOp : Fcdp_CollectiveOp<"all_gather", !listconcat(
    [FetchOpInterface], FromSharded)> {
  let summary = "gather the shards of a parameter or bucket over mesh axes";
  let description = [{
    The result holds the inputs of the ranks along `axes`, in order. Over both axes it
    is the whole bucket, in the order of the shards. Over `node` it is a node slice, and
    over `local` it is the whole, from node slices. `range` numbers the live ranges of a
    unit's gathered copy within a function. Without `range` the input is a reduced
    gradient, or a difference of outer steps, and the result is the larger part of it
    that a rank owns. With `into` the result is in the memory of a state and stays there
    for later functions. With `delta` a rank sends the difference of its input from its
    part of that state, which has the result of the previous gather; the result is the
    same as without `delta`. A gather over one rank folds to its input, unless it has an
    effect on a state, a stream or a buffer, or reads a view of a state.

    Example:
    ```mlir
    %slice = fcdp.all_gather %s of @bucket.fc over @world[node] range 0 : tensor<16xf32> to tensor<32xf32>
    %whole = fcdp.all_gather %slice of @bucket.fc over @world[local] range 0 : tensor<32xf32> to tensor<64xf32>
    ```

    Constraints:
    - (C1) `source` is a parameter or bucket, `mesh` a mesh, `axes` are not empty and distinct.
    - (C2) A shard becomes its whole tensor, over both axes.
    - (C3) A flat input becomes a flat result of the same element type and as many times
      its elements as there are ranks along the axes.
    - (C4) `stream` is given from the scheduled phase on, `buffer` in the planned phase.
    - (C5) `buffer`, where given, is device memory for the result.
    - (C6) `into` is a state of role `resident` or `prefetched` of the source, with the
      result's type.
    - (C7) Without `range` the source is a bucket, the input is f32 unless the bucket has
      `outer`, and there is no `into`.
    - (C8) `delta` is a state of role `cache` of the source, with the result's type, in a
      gather over `node` alone of elements in bf16 or f16. `scratch` is then given in the
      planned phase.
  }];
  let arguments = (ins Fcdp_AnyShard:$input, FlatSymbolRefAttr:$source,
                       FlatSymbolRefAttr:$mesh, Fcdp_AxesAttr:$axes,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$range,
                       Arg<OptionalAttr<FlatSymbolRefAttr>, "", [MemWrite<State>]>:$into,
                       Arg<OptionalAttr<FlatSymbolRefAttr>, "", [MemRead<HostCache>]>:$delta,
                       OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer,
                       OptionalAttr<Fcdp_BufferAttr>:$scratch);
  let results = (outs Res<Fcdp_WholeCopy, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    CollectiveKind getKind() { return CollectiveKind::allGather; }
    ::llvm::LogicalResult verifyOwnSymbolUses(
        ::mlir::SymbolTableCollection &symbols);
    Wire getWire() { return getDeltaAttr() ? Wire::delta : Wire::raw; }
    ::mlir::FlatSymbolRefAttr getMessageStateAttr() { return getDeltaAttr(); }
    /// Returns the memory for the messages of a coded gather.
    std::optional<int64_t> getScratchBytes();
    /// Returns whether it gathers a reduced gradient instead of a parameter's
    /// copy.
    bool isOfGradient() { return !getRange(); }
    bool bringsCopy() { return !isOfGradient(); }
    Stream chooseStream();
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = [{
    $input `of` $source `over` $mesh `` custom<Axes>($axes) (`range` $range^)?
    (`into` $into^)? (`delta` $delta^)? (`on` `` $stream^)?
    attr-dict `:` type($input) `to` type($result)
  }];
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input,
                                 "::mlir::FlatSymbolRefAttr":$source,
                                 "::mlir::FlatSymbolRefAttr":$mesh,
                                 "::mlir::ArrayAttr":$axes,
                                 "::mlir::IntegerAttr":$range), [{
    build($_builder, $_state, result, input, source, mesh, axes, range,
          /*into=*/{}, /*delta=*/{}, StreamAttr(), BufferAttr(), BufferAttr());
  }]>];
}

def Fcdp_ReduceScatterOp : Fcdp_CollectiveOp<"reduce_scatter", FromSharded> {
  let summary = "reduce over mesh axes and keep this rank's part";
  let description = [{
    Sums in f32, in the order of the ranks, and rounds once to the result's type. Over
    both axes the result has the same bits as a reduction over `local` in the input's
    type followed by one over `node`. With the code `int8` or `int4`, ranks send rounded
    values. `residual` has their rounding errors, which they add to the next values
    before rounding. A reduction over one rank to the same type folds to its input under
    the conditions of a gather.

    Example:
    ```mlir
    %g = fcdp.reduce_scatter %b of @bucket.fc over @world[local] : tensor<64xbf16> to tensor<32xbf16>
    ```

    Constraints:
    - (C1) `source` is a parameter or bucket, `mesh` a mesh, `axes` are not empty and distinct.
    - (C2) A whole tensor becomes a shard of it, over both axes.
    - (C3) A flat input becomes a flat result with its elements divided by the number
      of ranks along the axes, in the same type or f32.
    - (C4) `stream` is given from the scheduled phase on, `buffer` and `scratch` in the
      planned phase.
    - (C5) `buffer` and `scratch`, where given, are device memory for the result and
      for the input, with messages of all ranks if they are coded.
    - (C6) `code` is `coded`, `int8` or `int4`, in a reduction over `node` alone.
    - (C7) `residual` is a state of role `residual` of the source, with as many elements as
      the input. It is given if `code` is `int8` or `int4`, and not otherwise.
  }];
  let arguments = (ins Fcdp_Whole:$input, FlatSymbolRefAttr:$source,
                       FlatSymbolRefAttr:$mesh, Fcdp_AxesAttr:$axes,
                       OptionalAttr<Fcdp_WireAttr>:$code,
                       Arg<OptionalAttr<FlatSymbolRefAttr>, "",
                           [MemRead<HostCache>, MemWrite<HostCache>]>:$residual,
                       OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer,
                       OptionalAttr<Fcdp_BufferAttr>:$scratch);
  let results = (outs Res<Fcdp_AnyShard, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    CollectiveKind getKind() { return CollectiveKind::reduceScatter; }
    bool isOfGradient() { return true; }
    Wire getWire() { return getCode().value_or(Wire::raw); }
    ::mlir::FlatSymbolRefAttr getMessageStateAttr() { return getResidualAttr(); }
    Stream chooseStream();
    /// Returns the memory for what other ranks send and, if that is coded, for
    /// messages.
    std::optional<int64_t> getScratchBytes();
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let hasFolder = 1;
  let assemblyFormat = [{
    $input `of` $source `over` $mesh `` custom<Axes>($axes) (`code` `` $code^)?
    (`residual` $residual^)? (`on` `` $stream^)? attr-dict `:` type($input) `to` type($result)
  }];
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input,
                                 "::mlir::FlatSymbolRefAttr":$source,
                                 "::mlir::FlatSymbolRefAttr":$mesh,
                                 "::mlir::ArrayAttr":$axes), [{
    build($_builder, $_state, result, input, source, mesh, axes, WireAttr(),
          /*residual=*/{}, StreamAttr(), BufferAttr(), BufferAttr());
  }]>];
}

def Fcdp_ViewMemberOp : Fcdp_UserOp<"view_member", !listconcat(
    [Pure, StorageOpInterface, TakesNoTime, RunsNothing], FromSharded)> {
  let summary = "view a parameter inside its gathered bucket";
  let description = [{
    The result is a view of the bucket's memory.

    Example:
    ```mlir
    %w = fcdp.view_member %whole @fc.weight of @bucket.fc : tensor<64xf32> to tensor<3x4xf32>
    ```

    Constraints:
    - (C1) `parameter` is a member of `bucket`, the input is the whole bucket in its wire type.
    - (C2) The result has the parameter's shape and the wire type.
  }];
  let arguments = (ins Fcdp_FlatState:$whole, FlatSymbolRefAttr:$parameter,
                       FlatSymbolRefAttr:$bucket);
  let results = (outs AnyRankedTensor:$result);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getBucketAttr(); }
  }];
  let assemblyFormat = [{
    $whole $parameter `of` $bucket attr-dict `:` type($whole) `to` type($result)
  }];
}

def Fcdp_PackOp : Fcdp_UserOp<"pack", !listconcat(
    [BufferedOpInterface, StorageOpInterface, RunsOperators,
     Fcdp_Work<"memory">], FromSharded)> {
  let summary = "copy gradients to their places in a bucket";
  let description = [{
    Values of another type than the bucket's `reduce` are converted to it, rounded
    to nearest even.
    The rest of the result (padding, and members without a gradient) is zero.
    Gradients of the parameters in `in_place` are not copied, because the calls
    that define them write them directly into the result. So the result's memory
    is in use from the first of these calls on.

    Example:
    ```mlir
    %b = fcdp.pack @bucket.fc(%g0 as @fc.weight, %g1 as @fc.bias)
        : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<64xf32>
    ```

    Constraints:
    - (C1) Every value has a parameter; parameters are distinct members of `bucket`, and
      values have their shapes.
    - (C2) The result is the whole bucket, in its `reduce` type if it has one, and
      values are then floats of any type. Without a `reduce` type, values have the
      result's element type.
    - (C3) `buffer` is given in the planned phase.
    - (C4) `buffer`, where given, is device memory for the result.
    - (C5) `in_place` are distinct parameters of the values. In the planned phase
      each of these values is defined by a call with an out-variant, in the
      result's element type, and has no other use.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Variadic<AnyRankedTensor>:$values,
                       TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$parameters,
                       OptionalAttr<TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">>:$in_place,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Res<Fcdp_Flat, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getBucketAttr(); }
    /// Returns the type that `value` has inside the result.
    ::mlir::RankedTensorType getPackedType(::mlir::Value value) {
      return ::llvm::cast<::mlir::RankedTensorType>(value.getType())
          .clone(getResult().getType().getElementType());
    }
  }];
  let assemblyFormat = [{
    $bucket `` custom<PackedValues>($values, $parameters)
    attr-dict `:` functional-type($values, $result)
  }];
}

def Fcdp_AccumulateOp : Fcdp_UserOp<"accumulate", !listconcat(
    [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>, StreamedOpInterface,
     StorageOpInterface, Fcdp_Work<"memory">], FromSharded)> {
  let summary = "accumulate a gradient";
  let description = [{
    `overwrite` starts a new accumulation. If `target` is a bucket, the accumulator is
    its state `grad`. Accumulators that are not yet reduced over all ranks have separate
    states. A `late` accumulate runs on the stream of its value, not on `compute`, and
    may be in flight when its function ends.

    Example:
    ```mlir
    fcdp.accumulate %g into @bucket.fc add : tensor<16xf32>
    fcdp.accumulate %g into @bucket.fc add late on inter_reduce : tensor<16xf32>
    ```

    Constraints:
    - (C1) `target` is a trainable parameter or bucket, or a state of role `node_grad`
      or `full_grad`.
    - (C2) Over a bucket the value has the type of its state `grad`; over a
      parameter it is a shard of its shape; a state has its type.
    - (C3) The value of a `late` accumulate is flat and the result of a
      reduction or a gather.
    - (C4) `stream` is given if and only if it is `late` and the phase is
      scheduled or later.
  }];
  let arguments = (ins Fcdp_AnyShard:$value, FlatSymbolRefAttr:$target,
                       Fcdp_AccumulateAttr:$mode, UnitAttr:$late,
                       OptionalAttr<Fcdp_StreamAttr>:$stream);
  let extraClassDeclaration = [{
    Stream chooseStream();
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
  }];
  let assemblyFormat = [{
    $value `into` $target `` $mode (`late` $late^)? (`on` `` $stream^)? attr-dict
    `:` type($value)
  }];
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "::llvm::StringRef":$target,
                                 "Accumulate":$mode), [{
    build($_builder, $_state, value, target, mode, /*late=*/false, StreamAttr());
  }]>];
}

def Fcdp_AddOp : Fcdp_Op<"add", !listconcat(
    [Pure, AllTypesMatch<["sum", "value", "result"]>, BufferedOpInterface,
     Fcdp_Work<"memory">],
    FromSharded)> {
  let summary = "add gradients to an accumulator from host memory";
  let description = [{
    An earlier load brings the accumulator from host memory. A later store writes the
    result back, except in the last micro-batch.

    Example:
    ```mlir
    %next = fcdp.add %sum, %g : tensor<32xf32>
    ```

    Constraints:
    - (C1) Operands and result have one flat f32 type.
    - (C2) `buffer` is given in the planned phase.
    - (C3) `buffer`, where given, is device memory for the result.
  }];
  let arguments = (ins Fcdp_FlatF32:$sum, Fcdp_FlatF32:$value,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Fcdp_FlatF32:$result);
  let assemblyFormat = "$sum `,` $value attr-dict `:` type($result)";
}

def Fcdp_ShardUpdateOp : Fcdp_UserOp<"shard_update", !listconcat(
    [StorageOpInterface, UpdateOpInterface, RunsOperators, Fcdp_Work<"update">],
    FromSharded)> {
  let summary = "update this rank's shard with the optimizer";
  let description = [{
    Multiplies the accumulated gradient by `scale` (1 / (ranks x micro-batches)
    for a mean), and updates the shard and the optimizer state.

    Example:
    ```mlir
    fcdp.shard_update @bucket.fc scale 2.5e-01
        with #fcdp.adamw<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>
    ```

    With `piece`, only elements `begin` to `end` of the shard are updated. The states
    are pieces that were loaded from elsewhere, and that the update changes in their
    memory: the optimizer's in its order, then `master`.

    ```mlir
    fcdp.shard_update @bucket.fc piece 0 to 8 states(%m, %v : tensor<8xf32>, tensor<8xf32>) scale 2.5e-01
        with #fcdp.adamw<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>
    ```

    Constraints:
    - (C1) `target` is a trainable parameter or bucket.
    - (C2) The optimizer can update all parameters, and a bucket has the layout that
      it needs and its `max_side`.
    - (C3) `begin` and `end` are given together, for a bucket whose `states` are in
      `host` memory or a `file`. They are in the shard, `begin` is below `end`, and the
      optimizer can update this piece alone. In a file the piece of each state is of
      whole blocks of 4,096 bytes, except for the last.
    - (C4) `states` have the types of the pieces of the states that the update
      changes. There are none without `begin`.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<Accumulator>,
                           MemRead<State>, MemWrite<State>]>:$target,
                       OptionalAttr<I64Attr>:$begin, OptionalAttr<I64Attr>:$end,
                       Arg<Variadic<Fcdp_FlatState>, "", [MemRead<Pool>, MemWrite<Pool>]>:$states,
                       F64Attr:$scale, Fcdp_OptimizerAttr:$optimizer);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
    /// Returns the most bytes that the update of one parameter takes for its own
    /// results, which it does for one after another.
    int64_t getScratchBytes();
  }];
  let assemblyFormat = [{
    $target (`piece` $begin^ `to` $end `states` `(` $states `:` type($states) `)`)?
    `scale` $scale `with` $optimizer attr-dict
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$target,
                                 "::llvm::APFloat":$scale,
                                 "::mlir::Attribute":$optimizer), [{
    build($_builder, $_state,
          ::mlir::FlatSymbolRefAttr::get($_builder.getContext(), target),
          /*begin=*/::mlir::IntegerAttr(), /*end=*/::mlir::IntegerAttr(),
          /*states=*/::mlir::ValueRange(),
          $_builder.getF64FloatAttr(scale.convertToDouble()), optimizer);
  }]>];
}

def Fcdp_UnscaleGradientsOp : Fcdp_Op<"unscale_gradients", !listconcat(
    [MemoryEffects<[MemRead<State>, MemRead<Accumulator>,
                    MemWrite<Accumulator>]>,
     RunsOperators, Fcdp_Work<"agreement">], FromSharded)> {
  let summary = "divide all gradients by the loss scale";
  let description = [{
    The accumulated gradients of all trained parameters are divided by the value of
    `fcdp.read_loss_scale` in this step, as by torch.amp.GradScaler.unscale_. The ranks
    agree whether any gradient is infinite or NaN. In that case the step may be skipped.

    Example:
    ```mlir
    fcdp.unscale_gradients
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Fcdp_ClipGradientsOp : Fcdp_Op<"clip_gradients", !listconcat(
    [MemoryEffects<[MemRead<Accumulator>, MemWrite<Accumulator>]>,
     RunsOperators, Fcdp_Work<"agreement">], FromSharded)> {
  let summary = "clip the norm of all gradients";
  let description = [{
    The norm of the accumulated gradients of all trained parameters, over all ranks, is
    multiplied by `scale`. If the product exceeds `max_norm`, the accumulators are
    multiplied by `max_norm` / (norm + 1e-6), as in torch.nn.utils.clip_grad_norm_. Sums
    of squares are added in the order of the shards.

    Example:
    ```mlir
    fcdp.clip_gradients to 1.0e+00 scale 2.5e-01
    ```

    Constraints:
    - (C1) `max_norm` and `scale` are finite and positive.
  }];
  let arguments = (ins F64Attr:$max_norm, F64Attr:$scale);
  let assemblyFormat = "`to` $max_norm `scale` $scale attr-dict";
  let hasVerifier = 1;
}

def Fcdp_OuterDifferenceOp : Fcdp_UserOp<"outer_difference", !listconcat(
    [BufferedOpInterface, StorageOpInterface, Fcdp_Work<"hostUpdate">],
    FromSharded)> {
  let summary = "subtract a node's parameters from the outer parameters";
  let description = [{
    The result is the state `outer` minus the state `master` or, without a master, minus
    `shard`. It is computed in f32 and rounded to the result's type.

    Example:
    ```mlir
    %d = fcdp.outer_difference @bucket.outer : tensor<32xbf16>
    ```

    Constraints:
    - (C1) `source` is a bucket with `outer`.
    - (C2) The result has the shape of its state `outer`, of floats.
    - (C3) `buffer` is given in the planned phase.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<State>, MemRead<HostCache>]>:$source,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Res<Fcdp_Flat, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = "$source attr-dict `:` type($result)";
}

def Fcdp_OuterUpdateOp : Fcdp_UserOp<"outer_update", !listconcat(
    [StorageOpInterface, Fcdp_Work<"hostUpdate">], FromSharded)> {
  let summary = "update the outer parameters, from which nodes go on";
  let description = [{
    `value` is the sum of the nodes' differences. The gradient is `scale` times `value`,
    and with it the module's outer optimizer updates the states `outer` and
    `outer_momentum`. The states `master` and `shard` become the outer parameters,
    rounded to their types.

    Example:
    ```mlir
    fcdp.outer_update @bucket.outer with %sum scale 5.0e-01 : tensor<32xbf16>
    ```

    Constraints:
    - (C1) `target` is a bucket with `outer`.
    - (C2) The value has the shape of its state `outer`, of floats.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<HostCache>, MemWrite<HostCache>,
                           MemRead<State>, MemWrite<State>]>:$target,
                       Fcdp_Flat:$value, F64Attr:$scale);
  let extraClassDeclaration = [{
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
  }];
  let assemblyFormat = "$target `with` $value `scale` $scale attr-dict `:` type($value)";
}

include "dialects/Fcdp/FcdpHostOps.td"
include "dialects/Fcdp/FcdpKernelOps.td"

//===----------------------------------------------------------------------===//
// Scheduled: order between streams.
//===----------------------------------------------------------------------===//

def Fcdp_RecordOp : Fcdp_Op<"record", !listconcat(
    [MemoryEffects<[MemWrite<Order>]>, StreamedOpInterface, OrdersStreams,
     TakesNoTime], FromScheduled)> {
  let summary = "mark the work issued so far on a stream";
  let description = [{
    Example:
    ```mlir
    %t = fcdp.record on inter
    ```

    Constraints:
    - (C1) `event` is given in the planned phase.
  }];
  let arguments = (ins Fcdp_StreamAttr:$stream,
                       OptionalAttr<ConfinedAttr<I64Attr, [IntNonNegative]>>:$event);
  let results = (outs Fcdp_TokenType:$token);
  let assemblyFormat = "`on` `` $stream (`event` $event^)? attr-dict";
}

def Fcdp_WaitOp : Fcdp_Op<"wait", !listconcat(
    [MemoryEffects<[MemWrite<Order>]>, StreamedOpInterface, OrdersStreams,
     TakesNoTime], FromScheduled)> {
  let summary = "make a stream wait for a token";
  let description = [{
    A token that is an argument of the function is the result of the same number of the
    previous function, which recorded it.

    Example:
    ```mlir
    fcdp.wait %t on compute
    ```

    Constraints:
    - (C1) The token was not recorded on the same stream in this function, because
      a stream is in order anyway.
  }];
  let arguments = (ins Fcdp_TokenType:$token, Fcdp_StreamAttr:$stream);
  let assemblyFormat = "$token `on` `` $stream attr-dict";
  let hasVerifier = 1;
}

def Fcdp_ReleaseOp : Fcdp_Op<"release", !listconcat(
    [MemoryEffects<[MemWrite<Order>, MemFree<Pool>]>, StreamedOpInterface,
     OrdersStreams, TakesNoTime, RunsNothing], FromScheduled)> {
  let summary = "release the memory of a value for reuse";
  let description = [{
    All uses of the value, on all streams, precede the next operation of `compute`, and
    all operations of any stream after a wait for `compute`. If `stream` is given, this
    is true of that stream instead of `compute`. Then the value may be in use when the
    function ends, and its memory is free only after a wait for the token that the
    function returns.

    Example:
    ```mlir
    fcdp.release %whole : tensor<64xf32>
    fcdp.release %next on intra : tensor<64xf32>
    ```

    Constraints:
    - (C1) The value is the result of a gather, a load, a cast, a pack, a reduction or an
      addition.
    - (C2) The value has no later use and is released once.
    - (C3) `stream`, where given, is not `compute`.
  }];
  let arguments = (ins Fcdp_Sized:$value, OptionalAttr<Fcdp_StreamAttr>:$stream);
  let assemblyFormat = "$value (`on` `` $stream^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif // FCDP_FCDP_OPS
