// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_BASE
#define FCDP_FCDP_BASE

include "dialects/Fcdp/FcdpAttrs.td"
include "dialects/Fcdp/FcdpInterfaces.td"
include "dialects/Fcdp/FcdpTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Fcdp_Trait<string name> : NativeOpTrait<name> {
  let cppNamespace = "::fcdp";
}
/// Traits that say in which phases an operation may appear. The verifier passes
/// of the phases check them.
def InImported : Fcdp_Trait<"InImported">;
def InSharded : Fcdp_Trait<"InSharded">;
def InScheduled : Fcdp_Trait<"InScheduled">;
def InPlanned : Fcdp_Trait<"InPlanned">;
defvar FromSharded = [InSharded, InScheduled, InPlanned];
defvar FromScheduled = [InScheduled, InPlanned];
defvar Always = [InImported, InSharded, InScheduled, InPlanned];

/// The runtime calls operators of libtorch for the operation. They allocate and
/// free memory while it runs.
def RunsOperators : Fcdp_Trait<"RunsOperators">;
/// The operation takes no time on any stream, so that it has no cost.
def TakesNoTime : Fcdp_Trait<"TakesNoTime">;
/// The plan for the runtime has no operation for this one: it declares memory,
/// refers to it, or says when it is free.
def RunsNothing : Fcdp_Trait<"RunsNothing">;
/// The kind of work of an operation that takes time, a case of WorkKind.
class Fcdp_Work<string kind>
    : ParamNativeOpTrait<"Works", "::fcdp::WorkKind::" # kind> {
  let cppNamespace = "::fcdp";
}
/// The operation orders streams, and accesses no value.
def OrdersStreams : Fcdp_Trait<"OrdersStreams">;

/// Device memory for gathered values. Gathers allocate from it, so that CSE
/// keeps two equal gathers apart: merging them would keep a parameter alive
/// from forward to backward.
def Pool : Resource<"::fcdp::Pool">;
/// Memory that outlives a function: shards, optimizer state, buffers. An effect
/// names the symbol.
def State : Resource<"::fcdp::State">;
/// The accumulators of gradients. An effect names the bucket, parameter or
/// state, or is on all accumulators.
def Accumulator : Resource<"::fcdp::Accumulator">;
/// Host memory that the ranks of a node share.
def HostCache : Resource<"::fcdp::HostCache">;
/// The order of issue between streams.
def Order : Resource<"::fcdp::Order">;

class Fcdp_Op<string mnemonic, list<Trait> traits>
    : Op<Fcdp_Dialect, mnemonic, traits>;
class Fcdp_SymbolOp<string mnemonic, list<Trait> traits>
    : Fcdp_Op<mnemonic, !listconcat(
        [Symbol, HasParent<"::mlir::ModuleOp">, RunsNothing], traits)>;
/// An operation that refers to symbols and verifies them.
class Fcdp_UserOp<string mnemonic, list<Trait> traits>
    : Fcdp_Op<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)>;
/// A collective. Its interface verifies the symbols that it refers to.
class Fcdp_CollectiveOp<string mnemonic, list<Trait> traits>
    : Fcdp_Op<mnemonic, !listconcat(
        [SymbolUserOpInterface, CollectiveOpInterface, Fcdp_Work<"collective">],
        traits)>;

#endif // FCDP_FCDP_BASE
