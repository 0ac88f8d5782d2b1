// SPDX-License-Identifier: Apache-2.0
// The symbols of a module: mesh, parameters, buffers, inputs, buckets, states.
#ifndef FCDP_FCDP_SYMBOLS
#define FCDP_FCDP_SYMBOLS

include "dialects/Fcdp/FcdpBase.td"

def Fcdp_MeshOp : Fcdp_SymbolOp<"mesh", FromSharded> {
  let summary = "the ranks of a job, as nodes and local ranks";
  let description = [{
    Rank (node n, local l) is world rank `n * local + l`.

    Example:
    ```mlir
    fcdp.mesh @world(node = 2, local = 4)
    ```

    Constraints:
    - (C1) Both sizes are positive.
    - (C2) The ranks fit in 31 bits, as MPI and NCCL count them.
    - (C3) A module has one mesh.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       ConfinedAttr<I64Attr, [IntPositive]>:$node,
                       ConfinedAttr<I64Attr, [IntPositive]>:$local);
  let assemblyFormat = [{
    $sym_name `(` `node` `=` $node `,` `local` `=` $local `)` attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of ranks of the job.
    int64_t getWorldSize() { return getNode() * getLocal(); }
    /// Returns the number of ranks along `axis`.
    int64_t getSize(Axis axis) {
      return axis == Axis::node ? getNode() : getLocal();
    }
  }];
}

def Fcdp_ParameterOp : Fcdp_SymbolOp<"parameter", Always> {
  let summary = "a parameter of the model";
  let description = [{
    Declares a parameter; its value stays in the archive. `names` are its names in
    PyTorch; a tied parameter has several, and it is saved under the first. `unit` is
    the module that it is gathered with. Parameters are in PyTorch's order. A parameter
    of a `group` has other settings in the update. A `packed` parameter is the bytes
    of a frozen matrix in another form, which are made when weights are loaded.

    Example:
    ```mlir
    fcdp.parameter @wte.weight : tensor<65x384xf32> unit "wte" trainable
        names ["wte.weight", "lm_head.weight"]
    ```

    Constraints:
    - (C1) The type is a static tensor of floats whose bytes an `i64` counts.
    - (C2) `names` is not empty.
    - (C3) Only a trainable parameter has a `group`.
    - (C4) A `packed` parameter is not trainable, and a flat tensor of `ui8` of the size
      that the attribute has.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       StrAttr:$unit, UnitAttr:$trainable, StrArrayAttr:$names,
                       OptionalAttr<Fcdp_GroupAttr>:$group,
                       OptionalAttr<Fcdp_PackedAttr>:$packed);
  let assemblyFormat = [{
    $sym_name `:` $type `unit` $unit (`trainable` $trainable^)? `names` $names
    (`group` $group^)? (`packed` $packed^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def Fcdp_BufferOp : Fcdp_SymbolOp<"buffer", Always> {
  let summary = "a tensor that is not a parameter: running statistics, constants";
  let description = [{
    Every rank has its own copy. A `persistent` buffer is part of the model's state and
    is loaded by `name`. Any other buffer is a constant that is stored in the object.
    The step writes a `mutable` buffer. Only evaluations read a buffer of kind
    `evaluation`. Only the functions of one variant of the step read a buffer with that
    `variant`.

    Example:
    ```mlir
    fcdp.buffer @bn.running_mean : tensor<8xf32> name "bn.running_mean" persistent mutable
    ```

    Constraints:
    - (C1) The type is a static tensor of integers, floats or complex numbers
      whose bytes an `i64` counts.
    - (C2) `variant` is positive, and given only for a buffer that is neither
      `persistent` nor `mutable` nor of an `evaluation`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       StrAttr:$name, UnitAttr:$persistent, UnitAttr:$mutableBuffer,
                       UnitAttr:$evaluation, OptionalAttr<I64Attr>:$variant);
  let assemblyFormat = [{
    $sym_name `:` $type `name` $name (`persistent` $persistent^)?
    (`mutable` $mutableBuffer^)? (`evaluation` $evaluation^)?
    (`variant` $variant^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fcdp_InputOp : Fcdp_SymbolOp<"input", Always> {
  let summary = "an input of the step: one micro-batch of one rank";
  let description = [{
    `limit` bounds the values of an integer input that indexes a table, such as token
    ids: they are in [0, limit), or equal to `ignore`. An `evaluation` has separate
    inputs, whose names may equal names of the step's inputs. So has each `variant` of a
    step of several shapes, except that variant 0 is not written.

    Example:
    ```mlir
    fcdp.input @labels : tensor<4x128xi64> name "labels" limit 65 ignore -100
    ```

    Constraints:
    - (C1) The type is a static tensor of integers, floats or complex numbers
      whose bytes an `i64` counts.
    - (C2) `limit` is positive and given for integers only; `ignore` needs `limit`.
    - (C3) `variant` is positive, and not given for an `evaluation`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       StrAttr:$name, OptionalAttr<I64Attr>:$limit,
                       OptionalAttr<I64Attr>:$ignore, UnitAttr:$evaluation,
                       OptionalAttr<I64Attr>:$variant);
  let assemblyFormat = [{
    $sym_name `:` $type `name` $name (`limit` $limit^)? (`ignore` $ignore^)?
    (`evaluation` $evaluation^)? (`variant` $variant^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Fcdp_BucketOp : Fcdp_SymbolOp<"bucket", !listconcat(
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>], FromSharded)> {
  let summary = "parameters that are stored, gathered and reduced together";
  let description = [{
    A bucket is a flat buffer of `elements` elements, divided into G equal
    shards. Rank (node n, local l) owns shard `l * N + n`, so a gather between
    nodes gives one contiguous slice of the bucket, and a gather within a node
    puts the slices in order. With `sharding node` a rank owns that slice, which
    is replicated on all nodes. With `sharding none` a rank owns the whole
    bucket. The default is `world`. `storage` is the type of the shard, and
    `wire` is the type in which it is gathered. Members start at multiples of 64
    bytes (of the wire type), in PyTorch's parameter order. The rest is padding
    with zeros. `layout` (default: `flat`) defines blocks of members, and no
    shard begins inside a block.

    `reduce` is the type to which gradients are converted before they are
    reduced. Without it, they are reduced in the type in which they are computed.

    `master` is the type in which the optimizer keeps a copy of the parameters and its
    own states. It updates the copy, and the shard is the copy rounded to `storage`.
    Without it, the optimizer works on the shard.

    `unit` is the module that the bucket is gathered with. A bucket that serves
    several units names the first and the last of them, `h.0..h.3`.

    `residency` is the place of the gathered copy between two uses in a micro-batch.
    `carry` is its place until the next micro-batch or, if the bucket is frozen, the
    next step (default: as `residency`). `accumulation` is the way in which gradients
    are accumulated over the micro-batches of a step (default: `sharded`). A given
    attribute takes precedence over a computed one.

    `collectives` selects whether collectives over all ranks run in two steps
    (default: `two_level`) or in one (`flat`). Collectives that must yield a
    node slice always run in two steps: gathers if `residency` or `carry` is
    `node` or `host`, and reductions if `accumulation` is `node` or `node_host`.

    `gather_wire` and `reduce_wire` are the forms in which gathers and reductions send
    values between nodes (default: `raw`). With `delta`, a gather sends the changes
    since the slice in host memory was gathered. With `coded`, a reduction codes
    exponents. Neither changes a value. With `int8` or `int4`, a reduction rounds the
    values that it sends to codes of that many bits, and adds the rounding errors to the
    values of the next reduction.

    `outer` is the fragment of outer steps that contains the bucket. Between outer steps
    each node then has its own parameters: gradients are reduced only within the node.

    `states` is the memory of the states that the optimizer updates (default: `device`).
    In `host` memory each rank has them in its part, and `file` are files of each rank.
    The update loads them in pieces of about `piece` elements (default: the shard), and
    stores them again. Pieces in files are whole blocks of 4,096 bytes. With
    `update host`, the node's processors update states in `host` memory there.

    `max_side` is the longest side of a matrix for which the bucket has states that are
    squares of sides (default: 0, no side).

    Example:
    ```mlir
    fcdp.bucket @bucket.fc unit "fc" elements 64 storage f32 wire f32 trainable
        residency full carry host accumulation node
        members [@fc.weight at 0, @fc.bias at 32]
    fcdp.bucket @bucket.ln unit "ln" elements 64 storage f32 wire f32 trainable
        residency drop collectives flat members [@ln.weight at 0]
    fcdp.bucket @bucket.h unit "h" elements 64 storage bf16 wire bf16 trainable
        residency host gather_wire delta reduce_wire coded members []
    ```

    Constraints:
    - (C1) Members are parameters of the module with the bucket's trainability and storage type.
    - (C2) Members are distinct, do not overlap, are in ascending order and end within
      `elements`.
    - (C3) Members start at multiples of 64 bytes in the wire type.
    - (C4) `elements` is a multiple of the world size.
    - (C5) `storage` and `wire` are floats, and `wire` is not wider than `storage`; or both
      are `ui8`, in a frozen bucket of packed parameters.
    - (C6) An `i64` counts the bytes of `elements` in `storage`, and in f32, the type of
      the gradient accumulator.
    - (C7) A frozen bucket has no `accumulation`.
    - (C8) `residency` and `carry` are `full` or `drop` with `sharding node`,
      because the shard is the slice that they would keep, and `full` with
      `sharding none`.
    - (C9) A shard that begins inside a member begins with a block of the
      `layout`.
    - (C10) `master` is f32, in a trainable bucket with a narrower `storage`.
    - (C11) `reduce` is f32, bf16 or f16, in a trainable bucket.
    - (C12) With the layout `blocks<N>`, members begin at multiples of N elements, and shards
      are multiples of N.
    - (C13) `gather_wire` is `raw` or `delta`. `delta` needs a trainable bucket whose `wire`
      is bf16 or f16 and whose `residency` or `carry` is `host`.
    - (C14) `reduce_wire` is not `delta`. All but `raw` need a trainable bucket, and its
      `collectives` are not `flat`.
    - (C15) `outer` is not negative. It needs a trainable bucket with `sharding node` whose
      `collectives` are not `flat` and whose `accumulation` is `sharded` or `full`.
    - (C16) `max_side` is from 0 to 1,000,000, in a trainable bucket.
    - (C17) `states` are of a trainable bucket, and `host` and `file` are of one without
      `outer`. `piece` is given for these alone, and is a positive multiple of 256.
    - (C18) `update host` is given for `states host` alone.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$unit,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$elements, TypeAttr:$storage,
                       TypeAttr:$wire, OptionalAttr<TypeAttr>:$reduce,
                       OptionalAttr<TypeAttr>:$master, UnitAttr:$trainable,
                       DefaultValuedAttr<Fcdp_ShardingAttr, "::fcdp::Sharding::world">:$sharding,
                       OptionalAttr<Fcdp_LayoutAttr>:$layout,
                       OptionalAttr<Fcdp_ResidencyAttr>:$residency,
                       OptionalAttr<Fcdp_ResidencyAttr>:$carry,
                       OptionalAttr<Fcdp_AccumulationAttr>:$accumulation,
                       OptionalAttr<Fcdp_CollectivesAttr>:$collectives,
                       OptionalAttr<Fcdp_WireAttr>:$gather_wire,
                       OptionalAttr<Fcdp_WireAttr>:$reduce_wire,
                       OptionalAttr<I64Attr>:$outer, OptionalAttr<Fcdp_ArenaAttr>:$states,
                       OptionalAttr<I64Attr>:$piece, UnitAttr:$updated_on_host,
                       OptionalAttr<I64Attr>:$max_side,
                       TypedArrayAttrBase<Fcdp_MemberAttr, "members">:$members);
  let assemblyFormat = [{
    $sym_name `unit` $unit `elements` $elements `storage` $storage `wire` $wire
    (`reduce` $reduce^)? (`master` $master^)? (`trainable` $trainable^)?
    (`sharding` `` $sharding^)? (`layout` `` $layout^)?
    (`residency` `` $residency^)? (`carry` `` $carry^)?
    (`accumulation` `` $accumulation^)? (`collectives` `` $collectives^)?
    (`gather_wire` `` $gather_wire^)?
    (`reduce_wire` `` $reduce_wire^)? (`outer` $outer^)?
    (`states` `` $states^)? (`piece` $piece^)? (`update` `host` $updated_on_host^)?
    (`max_side` $max_side^)? `members` custom<Members>($members) attr-dict
  }];
  // A bucket on which nothing is decided.
  let builders = [OpBuilder<(ins "::mlir::StringRef":$name, "::mlir::StringRef":$unit,
      "int64_t":$elements, "::mlir::Type":$storage, "::mlir::Type":$wire,
      "::mlir::TypeAttr":$reduce, "::mlir::TypeAttr":$master, "bool":$trainable,
      "::fcdp::LayoutAttr":$layout, "::mlir::IntegerAttr":$max_side,
      "::mlir::ArrayAttr":$members), [{
    build($_builder, $_state, name, unit, elements, storage, wire, reduce, master,
      trainable, Sharding::world, layout, /*residency=*/{}, /*carry=*/{},
      /*accumulation=*/{}, /*collectives=*/{}, /*gather_wire=*/{}, /*reduce_wire=*/{},
      /*outer=*/{}, /*states=*/{}, /*piece=*/{}, /*updated_on_host=*/false, max_side,
      members);
  }]>];
  let hasVerifier = 1;
}

def Fcdp_StateOp : Fcdp_SymbolOp<"state", !listconcat(
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>], FromSharded)> {
  let summary = "memory of a bucket that outlives a function";
  let description = [{
    A state is memory of a bucket that outlives a function: the rank's shard, optimizer
    state, the shard in the optimizer's type (`master`), the node slice in the host
    cache (`cache`), a gathered copy that stays on the device (`resident`) or that the
    previous function has issued (`prefetched`), or a gradient accumulator. With outer
    steps, `outer` has the parameters from which all nodes started, and `outer_momentum`
    has the momentum of their update. Accumulated gradients are reduced over all ranks
    (`grad`), within the node (`node_grad`, or `host_grad` in host memory), or not
    reduced (`full_grad`). After planning a state has a `buffer`.

    Example:
    ```mlir
    fcdp.state @bucket.fc.shard shard of @bucket.fc in device : tensor<16xf32>
    ```

    Constraints:
    - (C1) The bucket exists and has at most one state of each role. The second
      part is checked if the module has a phase.
    - (C2) The type is flat; `cache`, `host_grad`, `residual`, `outer` and
      `outer_momentum` are in `host` memory. States that the optimizer updates are
      where the bucket's `states` are. All others are in `device` memory.
    - (C3) `cache` has one node slice (elements / local ranks) in the wire type,
      `resident` a node slice or the whole bucket in that type, and `prefetched` the
      whole bucket in that type. `node_grad`, `host_grad`, `residual`, `outer` and
      `outer_momentum` have one node slice in f32, and `full_grad` the whole bucket in
      f32. All other states have the part that the rank owns by the bucket's `sharding`:
      `grad` in f32, `shard` in the storage type, and the rest in the bucket's `master`
      type or, without one, in the storage type.
    - (C4) `buffer`, where given, is in the same arena and has the size of the type.
    - (C5) `master` is a state of a bucket with a `master` type. `outer` and
      `outer_momentum` are states of a bucket with `outer`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Fcdp_StateRoleAttr:$role,
                       FlatSymbolRefAttr:$bucket, Fcdp_ArenaAttr:$arena,
                       TypeAttrOf<Fcdp_FlatState>:$type, OptionalAttr<Fcdp_BufferAttr>:$buffer);
  let assemblyFormat = [{
    $sym_name `` $role `of` $bucket `in` `` $arena `:` $type (`at` $buffer^)? attr-dict
  }];
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

#endif // FCDP_FCDP_SYMBOLS
