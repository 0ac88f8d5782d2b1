// SPDX-License-Identifier: Apache-2.0
#ifndef FCDP_FCDP_TYPES
#define FCDP_FCDP_TYPES

include "dialects/Fcdp/FcdpDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinTypes.td"

def Fcdp_ShardType : TypeDef<Fcdp_Dialect, "Shard"> {
  let mnemonic = "shard";
  let summary = "a rank's part of a tensor, before its layout is fixed";
  let description = [{
    Its parameter is the type of the whole tensor: `!fcdp.shard<tensor<8x4xf32>>`.

    Constraints:
    - (C1) The whole is a static tensor of floats or `ui8` whose bytes an `i64` counts.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$whole);
  let assemblyFormat = "`<` $whole `>`";
  let genVerifyDecl = 1;
}

def Fcdp_TokenType : TypeDef<Fcdp_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a point in a stream that other streams can wait for";
}

def Fcdp_Sized : ConfinedType<AnyRankedTensor,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "static tensor whose bytes are known", "::mlir::RankedTensorType">;
def Fcdp_StoredType : TypeDef<Fcdp_Dialect, "Stored"> {
  let mnemonic = "stored";
  let summary = "a value of the forward pass in host memory";
  let description = [{
    Its parameter is the type of the value: `!fcdp.stored<tensor<8x4xf32>>`. No operator
    can read it.

    Constraints:
    - (C1) The value is a static tensor whose bytes an `i64` counts.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$tensor);
  let assemblyFormat = "`<` $tensor `>`";
  let genVerifyDecl = 1;
}

def Fcdp_Flat : ConfinedType<1DTensorOf<[AnyFloat]>,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "flat static tensor of floats", "::mlir::RankedTensorType">;
/// A state of a rank, or a copy of one. Codes of moments in 8 bits and packed
/// parameters are not floats.
def Fcdp_FlatState : ConfinedType<1DTensorOf<[AnyFloat, UI8]>,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "flat static tensor of floats or ui8", "::mlir::RankedTensorType">;
def Fcdp_FlatF32 : ConfinedType<1DTensorOf<[F32]>,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "flat static tensor of f32", "::mlir::RankedTensorType">;
/// A shard is abstract before bucketing and a flat tensor afterwards.
def Fcdp_AnyShard : AnyTypeOf<[Fcdp_ShardType, Fcdp_FlatState],
                              "a shard or a flat tensor">;
def Fcdp_Whole : ConfinedType<RankedTensorOf<[AnyFloat]>,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "static tensor of floats", "::mlir::RankedTensorType">;
def Fcdp_WholeCopy : ConfinedType<RankedTensorOf<[AnyFloat, UI8]>,
    [CPred<"::fcdp::hasByteSize(::llvm::cast<::mlir::RankedTensorType>($_self))">],
    "static tensor of floats or ui8", "::mlir::RankedTensorType">;

#endif // FCDP_FCDP_TYPES
