// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_ATTRS
#define FCDP_FCDP_ATTRS

include "dialects/Fcdp/FcdpDialect.td"
include "dialects/Fcdp/FcdpInterfaces.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Fcdp_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::fcdp";
  let genSpecializedAttr = 0;
}
class Fcdp_EnumAttr<EnumInfo info, string name>
    : EnumAttr<Fcdp_Dialect, info, name> {
  let assemblyFormat = "`<` $value `>`";
}
/// Prints the value without the dialect prefix inside an operation: `on inter`.
class Fcdp_BareEnumAttr<EnumInfo info, string name>
    : EnumAttr<Fcdp_Dialect, info, name>;

def Fcdp_Phase : Fcdp_Enum<"Phase", "a phase of the compilation", [
  I32EnumAttrCase<"imported", 0>, I32EnumAttrCase<"sharded", 1>,
  I32EnumAttrCase<"scheduled", 2>, I32EnumAttrCase<"planned", 3>]>;
def Fcdp_PhaseAttr : Fcdp_EnumAttr<Fcdp_Phase, "phase">;

// Modules state these two as text, which Fcdp.h gives and takes by value.
def Fcdp_Target : Fcdp_Enum<"Target", "the device that a step runs on", [
  I32EnumAttrCase<"cpu", 0>, I32EnumAttrCase<"cuda", 1>]>;
def Fcdp_Wrap : Fcdp_Enum<"Wrap", "the parameters that are gathered and reduced "
    "together: those of a unit, or of a module with parameters of its own; with "
    "`checkpoint`, those of a unit, and recomputed operations of the backward pass "
    "have a gather of their own", [
  I32EnumAttrCase<"unit", 0>, I32EnumAttrCase<"module", 1>,
  I32EnumAttrCase<"checkpoint", 2>]>;

def Fcdp_Role : Fcdp_Enum<"Role", "a member of the step's family of functions", [
  I32EnumAttrCase<"init", 0>, I32EnumAttrCase<"only_microbatch", 1>,
  I32EnumAttrCase<"first_microbatch", 2>, I32EnumAttrCase<"next_microbatch", 3>,
  I32EnumAttrCase<"last_microbatch", 4>, I32EnumAttrCase<"update", 5>,
  I32EnumAttrCase<"first_evaluation", 6>, I32EnumAttrCase<"next_evaluation", 7>,
  I32EnumAttrCase<"outer_update", 8>, I32EnumAttrCase<"only_outer_microbatch", 9>,
  I32EnumAttrCase<"last_outer_microbatch", 10>]>;
def Fcdp_RoleAttr : Fcdp_EnumAttr<Fcdp_Role, "role">;

def Fcdp_Axis : Fcdp_Enum<"Axis", "an axis of the mesh: `node` joins equal local "
    "ranks of all nodes, `local` the ranks of one node", [
  I32EnumAttrCase<"node", 0>, I32EnumAttrCase<"local", 1>]>;
def Fcdp_AxisAttr : Fcdp_BareEnumAttr<Fcdp_Axis, "axis">;
def Fcdp_AxesAttr : TypedArrayAttrBase<Fcdp_AxisAttr, "mesh axes, outermost first">;

def Fcdp_Stream : Fcdp_Enum<"Stream", "a stream of a rank: `inter` and `intra` "
    "gather between nodes and within a node, `inter_reduce` and `intra_reduce` "
    "reduce, `d2h` and `h2d` copy to and from host memory, `host` updates states in host "
    "memory", [
  I32EnumAttrCase<"compute", 0>, I32EnumAttrCase<"inter", 1>,
  I32EnumAttrCase<"intra", 2>, I32EnumAttrCase<"d2h", 3>,
  I32EnumAttrCase<"h2d", 4>, I32EnumAttrCase<"inter_reduce", 5>,
  I32EnumAttrCase<"intra_reduce", 6>, I32EnumAttrCase<"host", 7>]>;
def Fcdp_StreamAttr : Fcdp_BareEnumAttr<Fcdp_Stream, "stream">;

def Fcdp_Residency : Fcdp_Enum<"Residency", "the place of a bucket's gathered "
    "copy between two uses", [
  I32EnumAttrCase<"full", 0>, I32EnumAttrCase<"node", 1>,
  I32EnumAttrCase<"host", 2>, I32EnumAttrCase<"drop", 3>]>;
def Fcdp_ResidencyAttr : Fcdp_BareEnumAttr<Fcdp_Residency, "residency">;

def Fcdp_Sharding : Fcdp_Enum<"Sharding", "the ranks that a bucket's states are "
    "sharded over: all ranks (`world`), the ranks of a node with a replica on each "
    "node (`node`), or none, with a replica on each rank (`none`)", [
  I32EnumAttrCase<"world", 0>, I32EnumAttrCase<"node", 1>,
  I32EnumAttrCase<"none", 2>]>;
def Fcdp_ShardingAttr : Fcdp_BareEnumAttr<Fcdp_Sharding, "sharding">;

def Fcdp_Accumulate : Fcdp_Enum<"Accumulate", "the mode of an accumulate: "
    "`overwrite` replaces the accumulator's value, `add` adds to it", [
  I32EnumAttrCase<"overwrite", 0>, I32EnumAttrCase<"add", 1>]>;
def Fcdp_AccumulateAttr : Fcdp_BareEnumAttr<Fcdp_Accumulate, "accumulate_mode">;

def Fcdp_Accumulation : Fcdp_Enum<"Accumulation", "the way in which "
    "gradients are accumulated over the micro-batches of a step: reduced over all ranks "
    "each time, reduced within the node (`node_host`: accumulated in host memory), "
    "or unreduced until the end", [
  I32EnumAttrCase<"sharded", 0>, I32EnumAttrCase<"node", 1>,
  I32EnumAttrCase<"full", 2>, I32EnumAttrCase<"node_host", 3>]>;
def Fcdp_AccumulationAttr : Fcdp_BareEnumAttr<Fcdp_Accumulation, "accumulation">;

def Fcdp_Collectives : Fcdp_Enum<"Collectives", "the steps of a collective over "
    "all ranks: two, between nodes and within them (`two_level`), or one, with a "
    "single latency (`flat`)", [
  I32EnumAttrCase<"two_level", 0>, I32EnumAttrCase<"flat", 1>]>;
def Fcdp_CollectivesAttr : Fcdp_BareEnumAttr<Fcdp_Collectives, "collectives">;

def Fcdp_Wire : Fcdp_Enum<"Wire", "the form in which values are sent between "
    "nodes: without coding (`raw`), as differences from the values gathered last "
    "(`delta`), with coded exponents (`coded`), or rounded to codes of 8 or 4 bits "
    "(`int8`, `int4`)", [
  I32EnumAttrCase<"raw", 0>, I32EnumAttrCase<"delta", 1>,
  I32EnumAttrCase<"coded", 2>, I32EnumAttrCase<"int8", 3>,
  I32EnumAttrCase<"int4", 4>]>;
def Fcdp_WireAttr : Fcdp_BareEnumAttr<Fcdp_Wire, "wire">;

def Fcdp_Arena : Fcdp_Enum<"Arena", "device memory of a rank, host memory that a "
    "node's ranks share, or files of a rank", [
  I32EnumAttrCase<"device", 0>, I32EnumAttrCase<"host", 1>,
  I32EnumAttrCase<"file", 2>]>;
def Fcdp_ArenaAttr : Fcdp_BareEnumAttr<Fcdp_Arena, "arena">;

def Fcdp_KernelMap : Fcdp_Enum<"KernelMap", "the elements of an operand that a kernel "
    "reads for element (r, c) of its results, seen as rows: element (r, c), the only "
    "element, element c, or element r", [
  I32EnumAttrCase<"identity", 0>, I32EnumAttrCase<"scalar", 1>,
  I32EnumAttrCase<"row", 2>, I32EnumAttrCase<"column", 3>]>;
def Fcdp_KernelMapAttr : Fcdp_BareEnumAttr<Fcdp_KernelMap, "kernel_map">;
def Fcdp_KernelMapsAttr
    : TypedArrayAttrBase<Fcdp_KernelMapAttr, "maps of a kernel's operands">;

include "dialects/Fcdp/FcdpStateRoles.td"
def Fcdp_StateRole : Fcdp_Enum<"StateRole", "the content of a bucket's state", stateRoles>;
def Fcdp_StateRoleAttr : Fcdp_BareEnumAttr<Fcdp_StateRole, "state_role">;

class Fcdp_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Fcdp_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Fcdp_MemberAttr : Fcdp_Attr<"Member", "member"> {
  let summary = "a member of a bucket, with its offset: `#fcdp.member<@w, 64>`";
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$parameter,
                        "int64_t":$offset);
  let description = [{
    `offset` is the index of the parameter's first element in the flat bucket.

    Constraints:
    - (C1) `offset` is not negative.
  }];
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` $parameter `,` $offset `>`";
}

def Fcdp_LayoutKind : Fcdp_Enum<"LayoutKind", "the blocks of a bucket's members that are never split", [
  I32EnumAttrCase<"flat", 0>, I32EnumAttrCase<"ragged", 1>,
  I32EnumAttrCase<"owned", 2>, I32EnumAttrCase<"blocks", 3>,
  I32EnumAttrCase<"whole", 4>]>;
def Fcdp_LayoutAttr : Fcdp_Attr<"Layout", "layout"> {
  let summary = "the layout of members, which says where shards may split them: `flat`, `ragged<16>`, `owned`, `blocks<256>` or `whole`";
  let description = [{
    With `flat`, members may be split at any element, as element-wise optimizers allow.
    With `ragged<N>`, blocks of N rows of dimension 0 are never split; `ragged<1>` is
    sharding by rows. With `owned`, matrices are never split, as Muon needs them: the
    last two dimensions of a 3-D tensor are a matrix, and any other tensor of two or
    more dimensions is one matrix as a whole. A tensor of fewer dimensions may be split
    at any element. With `blocks<N>`, blocks of N elements are never split, and members
    and shards begin at multiples of N, so that a state with one number for each block
    is divided in the same way. With `whole`, members are never split, as Adafactor
    needs them.

    Constraints:
    - (C1) `ragged` has a positive number of rows, and `blocks` of elements; the others have none.
  }];
  let parameters = (ins EnumParameter<Fcdp_LayoutKind>:$kind,
                        DefaultValuedParameter<"int64_t", "0">:$rows);
  let assemblyFormat = "$kind (`<` $rows^ `>`)?";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the number of elements of a block of `tensor`. Blocks are never
    /// split.
    int64_t getBlockElements(::mlir::RankedTensorType tensor) const;
  }];
}

def Fcdp_BufferAttr : Fcdp_Attr<"Buffer", "buffer"> {
  let summary = "the location of a value or a state in an arena";
  let description = [{
    On rank (n, l) the buffer starts `offset + n * node_stride + l *
    local_stride` bytes after the start of the arena. `bytes` is its size.

    Constraints:
    - (C1) No number is negative, and the buffer ends before 2^63 bytes.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins EnumParameter<Fcdp_Arena>:$arena, "int64_t":$offset,
                        "int64_t":$bytes,
                        DefaultValuedParameter<"int64_t", "0">:$node_stride,
                        DefaultValuedParameter<"int64_t", "0">:$local_stride);
}

include "dialects/Fcdp/FcdpOptimizers.td"

def Fcdp_OuterAttr : Fcdp_Attr<"Outer", "outer"> {
  let summary = "rare synchronization of nodes by outer steps (DiLoCo, arXiv 2311.08105)";
  let description = [{
    Nodes train by themselves. After every `every` steps, the outer parameters minus a
    node's own parameters, averaged over all nodes, are a gradient. Stochastic gradient
    descent with `lr`, `momentum` and `nesterov` updates the outer parameters by it, and
    all nodes continue from the result. Buckets are divided into `fragments`, which are
    synchronized in turn: fragment p is synchronized after step t if t - p `every` /
    `fragments` is a multiple of `every`. With `overlap`, the synchronization runs in
    the last micro-batch of the next step, whose gradients are computed with the earlier
    parameters.

    Constraints:
    - (C1) `every` is from 1 to 2^31 - 1, and `fragments` from 1 to `every`.
    - (C2) `lr` and `momentum` are finite `f64` and not negative, and `nesterov` needs
      `momentum`.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "int64_t":$every, "::mlir::FloatAttr":$lr,
                        "::mlir::FloatAttr":$momentum, "bool":$nesterov,
                        "int64_t":$fragments,
                        DefaultValuedParameter<"bool", "false">:$overlap);
  let extraClassDeclaration = [{
    /// Returns the states of a bucket that outer steps keep.
    ::llvm::SmallVector<::fcdp::StateRole> getStates() const;
  }];
}
def Fcdp_GroupAttr : Fcdp_Attr<"Group", "group"> {
  let summary = "the settings of the optimizer for parameters of a group";
  let description = [{
    `lr` is a factor of the learning rate, which the runtime sets for each step.
    `weight_decay` replaces the optimizer's weight decay.

    Constraints:
    - (C1) All numbers are finite `f64` and not negative.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins "::mlir::FloatAttr":$lr, "::mlir::FloatAttr":$weight_decay);
}
def Fcdp_Packing : Fcdp_Enum<"Packing", "the form in which a frozen matrix is packed: "
    "`nf4` has a code of 4 bits for each value and an f32 scale for each 64 values, `int8` "
    "a code of 8 bits for each value and an f32 scale for each row", [
  I32EnumAttrCase<"nf4", 0>, I32EnumAttrCase<"int8", 1>]>;
def Fcdp_PackedAttr : Fcdp_Attr<"Packed", "packed"> {
  let summary = "the matrix that a parameter is packed from";
  let description = [{
    The bytes of the parameter are blocks, each of which has a scale in f32 and the codes
    of its values, to a multiple of 4 bytes (`runtime/core/PackedLayout.h`). `whole` is
    the type of the matrix. It is `transposed` if the forward pass multiplies by the
    matrix and not, as a linear layer does, by its transpose.

    Example: `#fcdp.packed<packing = nf4, whole = tensor<8x64xbf16>>`.

    Constraints:
    - (C1) `whole` is a static matrix of f32, bf16 or f16 of at most 2^48 bytes.
  }];
  let genVerifyDecl = 1;
  let parameters = (ins EnumParameter<Fcdp_Packing>:$packing,
                        "::mlir::RankedTensorType":$whole,
                        DefaultValuedParameter<"bool", "false">:$transposed);
  let extraClassDeclaration = [{
    /// Returns the number of bytes of the packed matrix.
    int64_t countBytes() const;
  }];
}
def Fcdp_OptimizerAttr : Attr<
    CPred<"::llvm::isa<::fcdp::OptimizerAttrInterface>($_self)">, "an optimizer"> {
  let storageType = "::mlir::Attribute";
  let returnType = storageType;
  let convertFromStorage = "$_self";
}

#endif // FCDP_FCDP_ATTRS
