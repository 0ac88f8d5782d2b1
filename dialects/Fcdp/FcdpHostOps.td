// SPDX-License-Identifier: Apache-2.0
//
// Operations on host memory and files: copies there and back, and updates there.
#ifndef FCDP_FCDP_HOST_OPS
#define FCDP_FCDP_HOST_OPS

include "dialects/Fcdp/FcdpSymbols.td"

def Fcdp_CacheStoreOp : Fcdp_UserOp<"cache_store", !listconcat(
    [StreamedOpInterface, StorageOpInterface, Fcdp_Work<"copy">], FromSharded)> {
  let summary = "store this rank's node slice of a bucket in host memory";
  let description = [{
    The value is a slice of a gathered bucket or of a gradient accumulator.

    Example:
    ```mlir
    fcdp.cache_store %slice to @bucket.fc.cache : tensor<32xf32>
    ```

    Constraints:
    - (C1) `target` is a state of role `cache` or `host_grad` with the value's type.
    - (C2) `stream` is given from the scheduled phase on.
  }];
  let arguments = (ins Fcdp_FlatState:$value,
                       Arg<FlatSymbolRefAttr, "", [MemWrite<HostCache>]>:$target,
                       OptionalAttr<Fcdp_StreamAttr>:$stream);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::d2h; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
  }];
  let assemblyFormat = "$value `to` $target (`on` `` $stream^)? attr-dict `:` type($value)";
}

def Fcdp_CacheLoadOp : Fcdp_UserOp<"cache_load", !listconcat(
    [FetchOpInterface, StreamedOpInterface, BufferedOpInterface,
     StorageOpInterface, Fcdp_Work<"copy">], FromSharded)> {
  let summary = "load this rank's node slice of a bucket from host memory";
  let description = [{
    A slice of a gradient accumulator is loaded for an addition to it. With `into` the
    result is in the memory of a state and stays there for the next function. That is
    possible on nodes of one rank, where the slice is the whole bucket.

    Example:
    ```mlir
    %slice = fcdp.cache_load @bucket.fc.cache : tensor<32xf32>
    ```

    Constraints:
    - (C1) `source` is a state of role `cache` or `host_grad` with the result's type.
    - (C2) `stream` is given from the scheduled phase on, `buffer` in the planned phase.
    - (C3) `buffer`, where given, is device memory for the result.
    - (C4) `into` is a state of role `prefetched` of the same bucket, with the result's type.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<HostCache>]>:$source,
                       Arg<OptionalAttr<FlatSymbolRefAttr>, "", [MemWrite<State>]>:$into,
                       OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Res<Fcdp_FlatState, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    /// Returns whether it loads a gradient accumulator instead of a parameter's
    /// copy.
    bool isOfGradient();
    bool bringsCopy() { return !isOfGradient(); }
    Stream chooseStream() { return Stream::h2d; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = [{
    $source (`into` $into^)? (`on` `` $stream^)? attr-dict `:` type($result)
  }];
}

def Fcdp_StoreValueOp : Fcdp_Op<"store_value", !listconcat(
    [StreamedOpInterface, Fcdp_Work<"copy">,
     TypesMatchWith<"type of the stored value", "value", "stored",
                    "::fcdp::StoredType::get($_self.getContext(), ::llvm::cast<::mlir::RankedTensorType>($_self))">],
    FromSharded)> {
  let summary = "store a value of the forward pass in host memory";
  let description = [{
    The value is in device memory until its `fcdp.drop_value`. The host memory is in use
    until the values that `fcdp.load_value` loads from it are released. It is in the
    rank's own part of the host arena, which has the same layout on all ranks.

    Example:
    ```mlir
    %y = aten.call "aten.relu.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %s = fcdp.store_value %y : tensor<8x4xf32>
    fcdp.drop_value %y stored %s : tensor<8x4xf32>
    %again = fcdp.load_value %s : tensor<8x4xf32>
    ```

    Constraints:
    - (C1) The value is a result of a call, and no other operation stores it.
    - (C2) `stream` is given from the scheduled phase on, `place` in the planned phase.
    - (C3) `place`, where given, is host memory for the value, in a part for each rank
      of a node.
    - (C4) One `fcdp.drop_value` drops the value.
  }];
  let arguments = (ins Fcdp_Sized:$value, OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$place);
  let results = (outs Res<Fcdp_StoredType, "", [MemAlloc<HostCache>]>:$stored);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::d2h; }
    /// Returns the operation that drops the value.
    DropValueOp getDrop();
  }];
  let assemblyFormat = "$value (`on` `` $stream^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Fcdp_DropValueOp : Fcdp_Op<"drop_value", !listconcat(
    [MemoryEffects<[MemFree<Pool>]>, RunsOperators, TakesNoTime,
     TypesMatchWith<"type of the stored value", "value", "stored",
                    "::fcdp::StoredType::get($_self.getContext(), ::llvm::cast<::mlir::RankedTensorType>($_self))">],
    FromSharded)> {
  let summary = "drop a value that has been stored";
  let description = [{
    Uses the value for the last time, when the copy to host memory is complete. From
    there on, its device memory is free.

    Example:
    ```mlir
    %y = aten.call "aten.relu.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %s = fcdp.store_value %y : tensor<8x4xf32>
    fcdp.drop_value %y stored %s : tensor<8x4xf32>
    %again = fcdp.load_value %s : tensor<8x4xf32>
    ```

    Constraints:
    - (C1) `stored` is the result of an operation that stores the value.
    - (C2) The value has no later use.
  }];
  let arguments = (ins Fcdp_Sized:$value, Fcdp_StoredType:$stored);
  let assemblyFormat = "$value `stored` $stored attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Fcdp_LoadValueOp : Fcdp_Op<"load_value", !listconcat(
    [StreamedOpInterface, BufferedOpInterface, Fcdp_Work<"copy">,
     TypesMatchWith<"type of the stored value", "value", "stored",
                    "::fcdp::StoredType::get($_self.getContext(), ::llvm::cast<::mlir::RankedTensorType>($_self))">],
    FromSharded)> {
  let summary = "load a value of the forward pass from host memory";
  let description = [{
    The result has the bits of the value that was stored, and its strides.

    Example:
    ```mlir
    %y = aten.call "aten.relu.default"(self = %x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
    %s = fcdp.store_value %y : tensor<8x4xf32>
    fcdp.drop_value %y stored %s : tensor<8x4xf32>
    %again = fcdp.load_value %s : tensor<8x4xf32>
    ```

    Constraints:
    - (C1) `stored` is the result of an operation that stores a value, which has been
      dropped before.
    - (C2) `stream` is given from the scheduled phase on, `buffer` in the planned phase.
    - (C3) `buffer`, where given, is device memory for the result.
  }];
  let arguments = (ins Arg<Fcdp_StoredType, "", [MemRead<HostCache>]>:$stored,
                       OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Res<Fcdp_Sized, "", [MemAlloc<Pool>]>:$value);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::h2d; }
  }];
  let assemblyFormat = "$stored (`on` `` $stream^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Fcdp_StateLoadOp : Fcdp_UserOp<"state_load", !listconcat(
    [StreamedOpInterface, BufferedOpInterface, StorageOpInterface,
     Fcdp_Work<"copy">], FromSharded)> {
  let summary = "load a piece of an optimizer's state from host memory or a file";
  let description = [{
    `begin` is the first element of the piece in the state. The piece is updated in its
    memory on the device, and `fcdp.state_store` writes it back.

    Example:
    ```mlir
    %m = fcdp.state_load @bucket.fc.exp_avg at 8 : tensor<8xf32>
    ```

    Constraints:
    - (C1) `source` is a state in host memory or a file that the optimizer updates.
    - (C2) The piece is in the state and has its element type.
    - (C3) `stream` is given from the scheduled phase on, `buffer` in the planned phase.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<HostCache>]>:$source,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$begin,
                       OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let results = (outs Res<Fcdp_FlatState, "", [MemAlloc<Pool>]>:$result);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::h2d; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
  }];
  let assemblyFormat = [{
    $source `at` $begin (`on` `` $stream^)? attr-dict `:` type($result)
  }];
}

def Fcdp_StateStoreOp : Fcdp_UserOp<"state_store", !listconcat(
    [StreamedOpInterface, StorageOpInterface, Fcdp_Work<"copy">], FromSharded)> {
  let summary = "store an updated piece of an optimizer's state in host memory or a file";
  let description = [{
    Example:
    ```mlir
    fcdp.state_store %m to @bucket.fc.exp_avg at 8 : tensor<8xf32>
    ```

    Constraints:
    - (C1) `target` is a state in host memory or a file that the optimizer updates.
    - (C2) The piece is in the state and has its element type.
    - (C3) `stream` is given from the scheduled phase on.
  }];
  let arguments = (ins Fcdp_FlatState:$value,
                       Arg<FlatSymbolRefAttr, "", [MemWrite<HostCache>]>:$target,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$begin,
                       OptionalAttr<Fcdp_StreamAttr>:$stream);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::d2h; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
  }];
  let assemblyFormat = [{
    $value `to` $target `at` $begin (`on` `` $stream^)? attr-dict `:` type($value)
  }];
}

def Fcdp_StoreGradientOp : Fcdp_UserOp<"store_gradient", !listconcat(
    [StreamedOpInterface, StorageOpInterface, Fcdp_Work<"copy">], FromSharded)> {
  let summary = "store a piece of a gradient in host memory, for an update there";
  let description = [{
    Copies elements `begin` to `end` of the accumulated gradient and, with `shard`, of the
    parameters' shard. The result is host memory for both: the gradient in f32 and, at the
    next multiple of 64 bytes, the shard. It is in use until `fcdp.load_shard`.

    Example:
    ```mlir
    %g = fcdp.store_gradient @bucket.fc piece 0 to 8 shard : !fcdp.stored<tensor<8xf32>>
    ```

    Constraints:
    - (C1) `source` is a bucket with `update host`.
    - (C2) The piece is in the shard, and the result has its type.
    - (C3) `shard` is given if the bucket has no `master`, and only then.
    - (C4) `stream` is given from the scheduled phase on, `place` in the planned phase.
    - (C5) `place`, where given, is host memory for the result, in a part for each rank
      of a node.
  }];
  let arguments = (ins Arg<FlatSymbolRefAttr, "", [MemRead<Accumulator>,
                           MemRead<State>]>:$source,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$begin, I64Attr:$end,
                       UnitAttr:$shard, OptionalAttr<Fcdp_StreamAttr>:$stream,
                       OptionalAttr<Fcdp_BufferAttr>:$place);
  let results = (outs Res<Fcdp_StoredType, "", [MemAlloc<HostCache>]>:$stored);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::d2h; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getSourceAttr(); }
    /// Returns the bytes that are copied, as a tensor.
    ::mlir::RankedTensorType getCopiedType();
    /// Returns the bytes of the result, and the first of them that is the shard's.
    int64_t getStoredBytes();
    int64_t getShardOffset();
  }];
  let assemblyFormat = [{
    $source `piece` $begin `to` $end (`shard` $shard^)? (`on` `` $stream^)? attr-dict
    `:` type($stored)
  }];
}

def Fcdp_HostUpdateOp : Fcdp_UserOp<"host_update", !listconcat(
    [StreamedOpInterface, StorageOpInterface, UpdateOpInterface,
     TypesMatchWith<"type of the gradient's memory", "gradient", "updated", "$_self">,
     Fcdp_Work<"hostUpdate">], FromSharded)> {
  let summary = "update a piece of a shard and its states in host memory";
  let description = [{
    Multiplies the gradient by `scale`, and updates the states in their places and the
    shard, on the node's processors. The result is the memory of the gradient, in which
    the shard is the new one.

    Example:
    ```mlir
    %g = fcdp.store_gradient @bucket.fc piece 0 to 8 shard : !fcdp.stored<tensor<8xf32>>
    %s = fcdp.host_update %g : !fcdp.stored<tensor<8xf32>> of @bucket.fc piece 0 to 8 scale 2.5e-01
        with #fcdp.adamw<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>
    fcdp.load_shard %s to @bucket.fc at 0 : !fcdp.stored<tensor<8xf32>>
    ```

    Constraints:
    - (C1) `gradient` is the result of the `fcdp.store_gradient` of this piece.
    - (C2) The optimizer can update all parameters and this piece alone, and a bucket has
      the layout that it needs.
    - (C3) `stream` is given from the scheduled phase on.
  }];
  let arguments = (ins Fcdp_StoredType:$gradient,
                       Arg<FlatSymbolRefAttr, "", [MemRead<HostCache>,
                           MemWrite<HostCache>]>:$target,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$begin, I64Attr:$end,
                       F64Attr:$scale, Fcdp_OptimizerAttr:$optimizer,
                       OptionalAttr<Fcdp_StreamAttr>:$stream);
  let results = (outs Fcdp_StoredType:$updated);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::host; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
  }];
  let assemblyFormat = [{
    $gradient `:` type($gradient) `of` $target `piece` $begin `to` $end
    (`on` `` $stream^)? `scale` $scale `with` $optimizer attr-dict
  }];
}

def Fcdp_LoadShardOp : Fcdp_UserOp<"load_shard", !listconcat(
    [StreamedOpInterface, StorageOpInterface, Fcdp_Work<"copy">], FromSharded)> {
  let summary = "load a piece of a shard that was updated in host memory";
  let description = [{
    Example:
    ```mlir
    %g = fcdp.store_gradient @bucket.fc piece 0 to 8 shard : !fcdp.stored<tensor<8xf32>>
    %s = fcdp.host_update %g : !fcdp.stored<tensor<8xf32>> of @bucket.fc piece 0 to 8 scale 2.5e-01
        with #fcdp.adamw<lr = 1.0e-03, beta1 = 9.0e-01, beta2 = 9.99e-01, eps = 1.0e-08, weight_decay = 1.0e-02>
    fcdp.load_shard %s to @bucket.fc at 0 : !fcdp.stored<tensor<8xf32>>
    ```

    Constraints:
    - (C1) `updated` is the result of the `fcdp.host_update` of the piece of `target` that
      begins at element `begin`.
    - (C2) `stream` is given from the scheduled phase on.
  }];
  let arguments = (ins Arg<Fcdp_StoredType, "", [MemRead<HostCache>]>:$updated,
                       Arg<FlatSymbolRefAttr, "", [MemWrite<State>]>:$target,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$begin,
                       OptionalAttr<Fcdp_StreamAttr>:$stream);
  let extraClassDeclaration = [{
    Stream chooseStream() { return Stream::h2d; }
    ::mlir::FlatSymbolRefAttr getStorageAttr() { return getTargetAttr(); }
    ::mlir::RankedTensorType getCopiedType() { return getUpdated().getType().getTensor(); }
  }];
  let assemblyFormat = [{
    $updated `to` $target `at` $begin (`on` `` $stream^)? attr-dict `:` type($updated)
  }];
}

#endif // FCDP_FCDP_HOST_OPS
